import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { hotelAt } from '../../src/cli/seed/hotel.ts';
import { counts, Program } from '../cli/program.ts';
import { peakOf } from '../support/processes.ts';

/**
 * An import of a million hotels takes up to 228 MB; one that buffered its lines would take half as much again here.
 */
const MAX_IMPORT_MIB = 260;
const TODAY = '2026-06-01';

test('of 100,000 lines with four wrong ones 99,996 are imported and four are written to a file; a repetition of the first 20,000 changes nothing', async () => {
  const program = await Program.set();
  const file = join(program.folder, 'many.ndjson');
  const bad = [
    [17, '{"id":"x","name":"cut off'],
    [40_000, '{"id":"y","name":"Y","star_rating":4.3}'],
    [70_000, '  {"id":"z", "name":"Z", "channel_id":"CH100003", "extra":"é"}\r'],
    [99_999, `{"id":"w","name":"W","channel_id":"${hotelAt(0, 1, TODAY).channel_id}"}`],
  ] as const;
  for (let from = 1; from <= 100_000; from += 10_000) {
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
  // the file has 120 MB
  console.log(`an import of 100,000 hotels: ${Math.round(await peakMiB)} MiB at most`);
  expect(await peakMiB).toBeLessThan(MAX_IMPORT_MIB);
  expect({ code: outcome.code, ...JSON.parse(outcome.stdout) }).toEqual(
    counts({ inserted: 99_996, rejected: 4 }),
  );
  for (const reason of [
    /line 17: not valid JSON/,
    /line 40000: star_rating must be/,
    /line 70000: unknown field "extra"/,
    /line 99999: channel_id "CH100001" goes to hotel "htl_\w+" of line 1\n/,
  ]) {
    expect(outcome.stderr).toMatch(reason);
  }
  expect(await readFile(`${file}.rejected.ndjson`, 'utf8')).toBe(bad.map(([, text]) => `${text}\n`).join(''));

  const noted = () => program.database.sql`select last_value from hotel_api_queue_number_seq`;
  const before = await noted();
  const lines = (await readFile(file, 'utf8')).split('\n');
  await writeFile(file, lines.slice(0, 20_000).join('\n'));
  expect(await program.json(['import', file])).toEqual(counts({ unchanged: 19_999, rejected: 1 }));
  expect(await noted()).toEqual(before);
});
