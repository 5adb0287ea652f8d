import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { hotelAt } from '../../src/cli/seed/hotel.ts';
import { Program } from '../cli/program.ts';
import { peakOf } from '../support/processes.ts';

/** .ci/nightly imports more: what is buffered shows only there. */
const LINES = process.env.TEST_FULL ? 100_000 : 20_000;
/** An import of a million hotels takes up to 228 MB; one that buffered its lines would take half as much again of 100,000. */
const MAX_IMPORT_MIB = 260;
const TODAY = '2026-06-01';

/** Wrong lines, by their numbers. */
const WRONG = new Map([
  [17, '{"id":"x","name":"cut off'],
  [0.7 * LINES, '  {"id":"z", "name":"Z", "channel_id":"CH100003", "extra":"é"}\r'],
  [LINES - 1, `{"id":"w","name":"W","channel_id":"${hotelAt(0, 1, TODAY).channel_id}"}`],
]);

function* linesTo(last: number) {
  for (let number = 1; number <= last; number++) {
    const right = () => JSON.stringify({ ...hotelAt(number - 1, 1, TODAY), certified: true });
    yield `${WRONG.get(number) ?? right()}\n`;
  }
}

test('of many lines three wrong ones are written to a file, and the others imported; a repetition of a fifth changes nothing', async () => {
  const program = await Program.set();
  const file = join(program.folder, 'many.ndjson');
  await writeFile(file, linesTo(LINES));
  const importing = program.start(['import', file, '--json']);
  const peakMiB = peakOf(importing.child.pid!);
  const outcome = await importing.outcome;
  // 100,000 have 120 MB
  console.log(`an import of ${LINES} hotels: ${Math.round(await peakMiB)} MiB at most`);
  expect(await peakMiB).toBeLessThan(MAX_IMPORT_MIB);
  expect(JSON.parse(outcome.stdout)).toMatchObject({ inserted: LINES - 3, rejected: 3 });
  const last = `line ${LINES - 1}: channel_id "CH100001" goes to hotel "htl_`;
  expect(outcome.stderr).toContain(last);
  const rejected = await readFile(`${file}.rejected.ndjson`, 'utf8');
  expect(rejected).toBe([...WRONG.values()].map((line) => `${line}\n`).join(''));

  const noted = () => program.database.sql`select last_value from hotel_api_queue_number_seq`;
  const before = await noted();
  await writeFile(file, linesTo(LINES / 5));
  expect(await program.json(['import', file])).toMatchObject({ unchanged: LINES / 5 - 1, rejected: 1 });
  expect(await noted()).toEqual(before);
});
