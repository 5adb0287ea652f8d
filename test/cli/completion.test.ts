import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isSkippedWithout } from '../support/wanted.ts';
import { MAIN } from './program.ts';
import { onTerminal, withoutTerminal } from './terminal.ts';

const run = promisify(execFile);

/** What stands behind `hotel-api ` when Tab is typed, and what the shell offers then. */
const CASES: [string, string[]][] = [
  [
    '',
    [
      ...['serve', 'migrate', 'keys', 'import', 'export', 'seed', 'config'],
      ...['health', 'check-freshness', 'completion', 'help'],
    ],
  ],
  ['im', ['import']],
  ['keys ', ['create', 'list', 'limit', 'revoke', 'rotate', 'help']],
  ['keys r', ['revoke', 'rotate']],
  ['keys create --n', ['--name']],
  ['keys create --name list --sc', ['--scope']],
  ['seed --ho', ['--hotels']],
  ['import --d', ['--dry-run', '--delete-missing']],
  ['import --dry-run --j', ['--json']],
  ['import hot', ['hotels.ndjson', 'hotels.csv']],
  ['export hotels.c', ['hotels.csv']],
  ['completion ', ['bash', 'zsh', 'fish']],
];

// Ctrl-T puts all that fits into the line, Ctrl-O writes the line to a file and ends the shell at once.
const TYPED = '\x14\x0f';
const BASHRC = `
source ./script.bash
bind '"\\C-t": insert-completions'
show() { printf '%s' "$READLINE_LINE" > offered; kill -KILL $$; }
bind -x '"\\C-o": show'
`;
const ZSHRC = `
autoload -U compinit; compinit -u -D
source ./script.zsh
all() { _main_complete; compstate[insert]=all; }
zle -C all complete-word all
show() { print -rn -- "$BUFFER" > offered; kill -KILL $$; }
zle -N show
bindkey '^T' all
bindkey '^O' show
`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'completion-'));
  for (const shell of ['bash', 'zsh', 'fish'])
    await writeFile(
      join(folder, `script.${shell}`),
      (await run(process.execPath, [MAIN, 'completion', shell])).stdout,
    );
  const others = { '.bashrc': BASHRC, '.zshrc': ZSHRC, 'hotels.ndjson': '', 'hotels.csv': '' };
  for (const [name, content] of Object.entries(others)) await writeFile(join(folder, name), content);
});
afterAll(() => rm(folder, { recursive: true }));

/** The words that an interactive shell puts in place of the last one. */
async function offeredBy(command: string, typed: string): Promise<string[]> {
  const keys = `hotel-api ${typed}${TYPED}`;
  await onTerminal(command, { cwd: folder, env: { HOME: folder, ZDOTDIR: folder, TERM: 'dumb' }, keys });
  const line = await readFile(join(folder, 'offered'), 'utf8');
  await rm(join(folder, 'offered'));
  const kept = `hotel-api ${typed.slice(0, typed.lastIndexOf(' ') + 1)}`;
  expect(line.slice(0, kept.length)).toBe(kept);
  return line.slice(kept.length).trim().split(' ');
}

async function offeredByFish(typed: string): Promise<string[]> {
  const command = `source ./script.fish; complete -C '${`hotel-api ${typed}`}'`;
  const { stdout } = await run('fish', ['--no-config', '-c', command], {
    cwd: folder,
    env: { HOME: folder, PATH: process.env.PATH },
  });
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t')[0]!);
}

const withoutBash = withoutTerminal || (await isSkippedWithout('completion in bash', 'bash'));
describe.skipIf(withoutBash)('bash', () => {
  test.each(CASES)('offers behind "hotel-api %s": %j', async (typed, words) => {
    const offered = await offeredBy('bash --rcfile .bashrc -i', typed);
    expect(offered.toSorted()).toEqual(words.toSorted());
  });
});

const withoutZsh = withoutTerminal || (await isSkippedWithout('completion in zsh', 'zsh'));
describe.skipIf(withoutZsh)('zsh', () => {
  test.each(CASES)('offers behind "hotel-api %s": %j', async (typed, words) => {
    expect((await offeredBy('zsh -i', typed)).toSorted()).toEqual(words.toSorted());
  });
});

describe.skipIf(await isSkippedWithout('completion in fish', 'fish'))('fish', () => {
  test.each(CASES)('offers behind "hotel-api %s": %j', async (typed, words) => {
    expect((await offeredByFish(typed)).toSorted()).toEqual(words.toSorted());
  });
});

test('an unknown shell is wrong usage that names the known ones', async () => {
  await expect(run(process.execPath, [MAIN, 'completion', 'tcsh'])).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Allowed choices are bash, zsh, fish'),
  });
});
