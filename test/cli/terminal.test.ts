import { stripVTControlCharacters } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { BUNDLED } from '../support/bundle.ts';
import { MAIN, Program } from './program.ts';
import { onTerminal, withoutTerminal } from './terminal.ts';

/** Hotels of a file that an import reads in two batches. */
const HOTELS = 8_000;
const ESC = '\x1b';

let program: Program;
beforeAll(async () => {
  program = await Program.set();
  await program.run(['seed', '--hotels', String(HOTELS)]);
  await program.run(['export', 'hotels.ndjson']);
  await program.database.sql`truncate hotels`;
});

const shown = (args: string, env: NodeJS.ProcessEnv = {}) =>
  onTerminal(`'${process.execPath}' '${MAIN}' ${args}`, {
    cwd: program.folder,
    env: { ...BUNDLED, DATABASE_URL: program.database.ownerUrl, ...env },
  });

describe.skipIf(withoutTerminal)('on a terminal', () => {
  test('an import shows its progress in one line, and removes it', async () => {
    const output = await shown('import hotels.ndjson');
    const drawn = stripVTControlCharacters(output);
    expect(drawn).toMatch(/reading hotels\.ndjson: \d+ %, [\d.]+ MB of [\d.]+ MB/);
    // the line is cleared before the result
    expect(output).toContain(`\r${ESC}[K${HOTELS} inserted, 0 updated`);
  });
});

test('elsewhere lines are plain, without control characters', async () => {
  for (const args of ['--help', 'import --help', 'import no-such-file', 'import hotels.ndjson']) {
    const { stdout, stderr } = await program.run(args.split(' '));
    expect(stdout + stderr).toBe(stripVTControlCharacters(stdout + stderr));
    expect(stdout + stderr).not.toContain('\r');
  }
});

test('every command has help with an example of that command', async () => {
  const { stdout } = await program.run(['--help']);
  const names = [...stdout.split('Commands:')[1]!.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name!);
  expect(names.length).toBeGreaterThan(9);
  const paths = names.filter((name) => name !== 'help').map((name) => [name]);
  for (const name of ['create', 'list', 'limit', 'revoke', 'rotate']) paths.push(['keys', name]);
  const helps = await Promise.all(paths.map((path) => program.run([...path, '--help'])));
  for (const [at, path] of paths.entries())
    expect(helps[at]!.stdout.split('Examples:\n')[1]).toContain(`hotel-api ${path.join(' ')}`);
});

test('wrong usage refers to the help of its command', async () => {
  for (const [args, help] of [
    ['imprt', 'Did you mean import?)\nHelp: hotel-api --help'],
    ['import', 'Help: hotel-api import --help'],
    ['keys rotate key_x --grace soon', 'Help: hotel-api keys rotate --help'],
  ] as const) {
    const { code, stdout, stderr } = await program.run(args.split(' '));
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining(help)]);
  }
});
