import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { hotelAt } from '../../src/cli/seed/hotel.ts';
import { counts, Program } from '../cli/program.ts';
import { peakOf } from '../support/processes.ts';

/** .ci/nightly imports more: what is buffered shows only there. */
const LINES = process.env.TEST_FULL ? 100_000 : 20_000;
/** An import of a million hotels takes up to 228 MB; one that buffered its lines would take half as much again of 100,000. */
const MAX_IMPORT_MIB = 260;
const TODAY = '2026-06-01';

test('of many lines four wrong ones are written to a file, and the others imported; a repetition of a fifth changes nothing', async () => {
  const program = await Program.set();
  const file = join(program.folder, 'many.ndjson');
  const bad = [
    [17, '{"id":"x","name":"cut off'],
    [0.4 * LINES, '{"id":"y","name":"Y","star_rating":4.3}'],
    [0.7 * LINES, '  {"id":"z", "name":"Z", "channel_id":"CH100003", "extra":"é"}\r'],
    [LINES - 1, `{"id":"w","name":"W","channel_id":"${hotelAt(0, 1, TODAY).channel_id}"}`],
  ] as const;
  for (let from = 1; from <= LINES; from += 10_000) {
    let text = '';
    for (let number = from; number < from + 10_000; number++) {
      const wrong = bad.find(([at]) => at === number)?.[1];
      text +=
        wrong === undefined
          ? `${JSON.stringify({ ...hotelAt(number - 1, 1, TODAY), certified: true })}\n`
          : `${wrong}\n`;
    }
    await appendFile(file, text);
  }
  const importing = program.start(['import', file, '--json']);
  const peakMiB = peakOf(importing.child.pid!);
  const outcome = await importing.outcome;
  // 100,000 have 120 MB
  console.log(`an import of ${LINES} hotels: ${Math.round(await peakMiB)} MiB at most`);
  expect(await peakMiB).toBeLessThan(MAX_IMPORT_MIB);
  expect({ code: outcome.code, ...JSON.parse(outcome.stdout) }).toEqual(
    counts({ inserted: LINES - 4, rejected: 4 }),
  );
  for (const reason of [
    /line 17: not valid JSON/,
    new RegExp(`line ${0.4 * LINES}: star_rating must be`),
    new RegExp(`line ${0.7 * LINES}: unknown field "extra"`),
    new RegExp(`line ${LINES - 1}: channel_id "CH100001" goes to hotel "htl_\\w+" of line 1\n`),
  ]) {
    expect(outcome.stderr).toMatch(reason);
  }
  expect(await readFile(`${file}.rejected.ndjson`, 'utf8')).toBe(bad.map(([, text]) => `${text}\n`).join(''));

  const noted = () => program.database.sql`select last_value from hotel_api_queue_number_seq`;
  const before = await noted();
  const lines = (await readFile(file, 'utf8')).split('\n');
  await writeFile(file, lines.slice(0, LINES / 5).join('\n'));
  expect(await program.json(['import', file])).toEqual(counts({ unchanged: LINES / 5 - 1, rejected: 1 }));
  expect(await noted()).toEqual(before);
});
