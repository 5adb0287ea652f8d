import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { BUNDLED } from '../support/bundle.ts';
import { lacks } from '../support/needs.ts';
import { pathOf } from '../support/programs.ts';
import { MAIN, Program } from './program.ts';

/** Hotels of a file that an import reads in two batches. */
const HOTELS = 8_000;
const ESC = '\x1b';

const program = await Program.set();
const lines = Array.from({ length: HOTELS }, (_, i) => `{"id":"h${i}","name":"${'Hotel '.repeat(40)}"}\n`);
await writeFile(join(program.folder, 'hotels.ndjson'), lines.join(''));

/** Program that gives another one a terminal: of util-linux, and on Debian 13 of bsdutils. */
const script = await pathOf('script');
const withoutTerminal = process.platform !== 'linux' || (await lacks('script')) || !(await makesTerminals());

/** Returns false if no pseudo-terminal can be created, as in a chroot without /dev/pts. In CI every test runs. */
async function makesTerminals(): Promise<boolean> {
  const child = spawn(script!, ['-qec', 'true', '/dev/null'], { stdio: 'ignore' });
  const [code] = await once(child, 'exit');
  if (code !== 0 && process.env.CI)
    throw new Error('In CI every test runs, but no pseudo-terminal can be made.');
  if (code !== 0) console.warn('Not tested in part: no pseudo-terminal can be made here.');
  return code === 0;
}

test.skipIf(withoutTerminal)(
  'on a terminal an import shows its progress in one line, and removes it',
  async () => {
    const command = `'${process.execPath}' '${MAIN}' import hotels.ndjson`;
    const child = spawn(script!, ['-qec', command, '/dev/null'], {
      cwd: program.folder,
      env: {
        ...{ PATH: process.env.PATH, TERM: 'xterm', SHELL: '/bin/sh' },
        ...{ ...BUNDLED, DATABASE_URL: program.database.ownerUrl },
      },
    });
    child.stdin.end();
    const output = await text(child.stdout);
    const drawn = stripVTControlCharacters(output);
    expect(drawn).toMatch(/reading hotels\.ndjson: \d+ %, [\d.]+ MB of [\d.]+ MB/);
    // the line is cleared before the result
    expect(output).toContain(`\r${ESC}[K${HOTELS} inserted, 0 updated`);
  },
);

test.each([
  ['--help', 0, 'Usage: hotel-api'],
  ['import --help', 0, 'Usage: hotel-api import'],
  ['import no-such-file', 1, 'cannot read no-such-file'],
  ['import hotels.ndjson', 0, ' unchanged, 0 deleted, 0 rejected'],
  ['imprt', 2, 'Did you mean import?)\nThe option --help'],
  ['import', 2, 'The option --help explains the command.'],
  ['keys rotate key_x --grace soon', 2, 'The option --help explains the command.'],
  ['keys create --name x --scope admin', 2, 'The option --help explains the command.'],
  ['seed', 2, 'The option --help explains the command.'],
  ['keys revoke key_unknown', 1, 'key_unknown'],
])('elsewhere the lines of `%s` are plain; the exit code is %d', async (args, code, said) => {
  const outcome = await program.run(args.split(' '));
  const printed = outcome.stdout + outcome.stderr;
  expect([outcome.code, printed]).toEqual([code, expect.stringContaining(said)]);
  if (code === 2) expect(outcome.stdout).toBe('');
  // no control characters, and no stack
  expect(printed).toBe(stripVTControlCharacters(printed));
  expect(printed).not.toMatch(/\r|\n {4}at /);
});
