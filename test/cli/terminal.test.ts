import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
  const lines = Array.from({ length: HOTELS }, (_, i) => `{"id":"h${i}","name":"${'Hotel '.repeat(40)}"}\n`);
  await writeFile(join(program.folder, 'hotels.ndjson'), lines.join(''));
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
