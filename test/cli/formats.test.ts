import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { IMPORTED_COLUMNS } from '../../src/cli/import/hotel.ts';
import { hotelAt } from '../../src/cli/seed/hotel.ts';
import { waitingForHotels } from '../support/postgres-client.ts';
import { counts, type Outcome, Program } from './program.ts';

const HOTELS = 300;
const made = Array.from({ length: HOTELS }, (_, i) => ({
  ...hotelAt(i, 1, '2026-06-01'),
  // characters that CSV must quote
  description: i % 7 === 0 ? `"Bom dia",\r\n\n; disse\to gato\\ n.º ${i}` : null,
  registry_id: i === 0 ? '9007199254740991' : String(500_001 + i),
}));
const linesOf = (hotels: object[]) => hotels.map((hotel) => `${JSON.stringify(hotel)}\n`).join('');
const ndjson = linesOf(made);
const cell = (value: unknown) => {
  const text = value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
  return /["\n\r,;\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const csv = (delimiter = ',', newline = '\n', columns: string[] = IMPORTED_COLUMNS) =>
  [columns, ...made.map((hotel) => columns.map((column) => cell(hotel[column as keyof typeof hotel])))]
    .map((cells) => cells.join(delimiter) + newline)
    .join('');

let program: Program;
const sql = () => program.database.sql;
/** Returns all hotels without their versions. */
const rows = () => sql()`select ${sql()(IMPORTED_COLUMNS)} from hotels order by id`;
/** Hotels of an import of `ndjson`. */
let imported: Awaited<ReturnType<typeof rows>>;
beforeAll(async () => {
  program = await Program.set();
  expect(await program.json(['import', '-'], ndjson)).toEqual(counts({ inserted: HOTELS }));
  imported = await rows();
  await sql()`create table imported as table hotels`;
});
beforeEach(async () => {
  await sql()`truncate hotels`;
});
/** Number of hotels whose row of CSV has several lines. */
const MULTILINE = made.filter(({ description }) => description).length;
/** Fills the empty table with the hotels of `ndjson`. */
const fill = () =>
  sql()`insert into hotels (${sql()(IMPORTED_COLUMNS)}) select ${sql()(IMPORTED_COLUMNS)} from imported`;
const put = async (name: string, content: string | Buffer) => {
  await writeFile(join(program.folder, name), content);
  return name;
};
const read = (name: string) => readFile(join(program.folder, name));

describe('import', () => {
  test('leaves statistics of the hotels', async () => {
    await sql()`delete from pg_statistic where starelid = 'hotels'::regclass`;
    await program.json(['import', '-'], ndjson);
    const [found] =
      await sql()`select n_distinct from pg_stats where tablename = 'hotels' and attname = 'id'`;
    expect(found).toEqual({ n_distinct: -1 });
  });

  test.each([
    ['hotels.csv.gz', gzipSync(csv())],
    ['excel.csv', `\ufeff${csv(';', '\r\n')}`],
    ['turned.tsv', csv('\t', '\n', IMPORTED_COLUMNS.toReversed())],
    // neither name has the extension of its format
    ['hotels', csv()],
    ['hotels.dat', gzipSync(ndjson)],
  ])('%s yields the same hotels as NDJSON, from a file and from standard input', async (name, content) => {
    const multiline = name.endsWith('.dat') ? 0 : MULTILINE;
    expect(await program.json(['import', await put(name, content)])).toEqual(
      counts({ inserted: HOTELS, multiline }),
    );
    expect(await rows()).toEqual(imported);
    expect(await program.json(['import', '-'], Buffer.from(content))).toEqual(
      counts({ unchanged: HOTELS, multiline }),
    );
    expect((await sql()`select registry_id from hotels where id = ${made[0]!.id}`)[0]!.registry_id).toBe(
      '9007199254740991',
    );
  });

  test('invalid rows of CSV are reported by line and reason, and written as CSV that can be corrected', async () => {
    const rows = [
      'id,name,star_rating,images',
      'a,A,4.3,',
      'b,"B\nof two lines",,',
      'c,C',
      'd,D,vier,',
      'e,E,,not JSON',
      ',F,,',
      'g,G"G,,',
      'h,H,4.5,"[{""url"":""https://a/b""}]"',
    ];
    for (const [name, content] of [
      ['wrong.csv', rows.join('\n')],
      ['wrong.csv.gz', gzipSync(rows.join('\n'))],
    ] as const) {
      await sql()`truncate hotels`;
      const { code, stdout, stderr } = await program.run(['import', await put(name, content)]);
      expect(code).toBe(1);
      expect(stdout).toContain('2 inserted, 0 updated, 0 unchanged, 0 deleted, 6 rejected');
      expect(stderr.split('\n')).toEqual([
        expect.stringMatching(/^line 2: star_rating must be/),
        expect.stringMatching(/^line 5: it has 2 cells, the header row names 4 fields/),
        expect.stringMatching(/^line 6: star_rating must be/),
        expect.stringMatching(/^line 7: images must be/),
        expect.stringMatching(/^line 8: id is missing/),
        expect.stringMatching(/^line 9: a quote is not closed: it would swallow 1 line after it/),
        expect.stringMatching(/^line 10: the file may end midway, no newline follows "h,H,4.5,/),
        '',
      ]);
      expect(String(await read(`${name}.rejected.csv`))).toBe(
        `${[rows[0], rows[1], ...rows.slice(3, -1)].join('\n')}\n`,
      );
    }
  });

  test.each([
    ['stars.csv', 'id,name,stars\na,A,4\n', /unknown field "stars".*Its fields are/],
    ['twice.csv', 'id,name,id\na,A,a\n', /"id" is repeated/],
    ['nameless.csv', 'id,city\na,Rome\n', /"name" is missing/],
    ['headless.csv', 'a,A,4\n', /line 1 is no header row.*at least id and name/],
    [
      'cut.ndjson.gz',
      gzipSync(ndjson).subarray(0, 4_000),
      /corrupt or truncated.*nothing was imported.*again/,
    ],
  ])('%s is rejected as a whole, with a remedy', async (name, content, sentence) => {
    const { code, stdout, stderr } = await program.run(['import', await put(name, content)]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(sentence);
    expect(await sql()`select 1 from hotels limit 1`).toHaveLength(0);
  });

  test('a dry run reports the changes and the first faults, and writes no hotel', async () => {
    await fill();
    const wrong = Array.from({ length: 30 }, (_, i) => `{"id":"w${i}"}\n`).join('');
    const noted = () =>
      sql()`select (select last_value from hotel_api_queue_number_seq) as drawn, (select count(*) from hotels) as hotels`;
    const before = await noted();
    const input = `${JSON.stringify({ ...made[0], city: 'Rome' })}\n{"id":"new","name":"N"}\n${wrong}`;
    const args = ['import', '-', '--dry-run', '--delete-missing', '--delete-at-most', '100%'];
    const { code, stdout, stderr } = await program.run(args, input);
    expect(code).toBe(1);
    expect(stdout).toContain(
      `Dry run, nothing was changed. An import would be: 1 inserted, 1 updated, 0 unchanged, ${HOTELS - 1} deleted, 30 rejected`,
    );
    const lines = stderr.trimEnd().split('\n');
    expect(lines).toEqual([
      ...Array.from({ length: 20 }, (_, i) => expect.stringMatching(`^line ${i + 3}: name is missing`)),
      '10 more lines would be rejected.',
    ]);
    expect(await noted()).toEqual(before);
  });

  test('a dry run does not wait for other writers, and they do not wait for it', async () => {
    await sql().begin(async (holder) => {
      await holder`insert into hotels (id, name) values ('held', 'H')`;
      expect(await program.json(['import', '-', '--dry-run'], ndjson)).toEqual(counts({ inserted: HOTELS }));
    });
  });
});

describe('export', () => {
  test('can be imported again without a change', async () => {
    const file = 'all.ndjson.gz';
    await fill();
    // values that other systems may store and the importer would reject
    await sql()`
      insert into hotels (id, name, images, latitude, certified_from) values
      ('Ä" \\ \t', 'x', '[{"url":"https://a/b"},{"url":"https://a/c","caption":"c","size":7}]', 1e-7, '0001-01-01'),
      ('z', 'y', '[{"caption":null,"url":"https://a/b"}]', -0.0, null)`;
    expect(await program.json(['export', file])).toEqual({ code: 0, exported: HOTELS + 2, file });
    const lines = String(gunzipSync(await read(file)))
      .trimEnd()
      .split('\n');
    expect(lines).toHaveLength(HOTELS + 2);
    expect(Object.keys(JSON.parse(lines[0]!))).toEqual([
      ...IMPORTED_COLUMNS.filter((column) => column !== 'images' && column !== 'registry_id'),
      'images',
      'registry_id',
    ]);
    const ids = lines.map((line) => JSON.parse(line).id);
    expect(ids).toEqual(ids.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
    expect(lines.join()).toContain('"registry_id":9007199254740991}');
    expect(await program.json(['import', file])).toEqual(counts({ unchanged: HOTELS + 2 }));
    expect(await program.json(['import', file, '--delete-missing'])).toEqual(
      counts({ unchanged: HOTELS + 2 }),
    );
    await sql()`truncate hotels`;
    expect(await program.json(['import', file])).toEqual(counts({ inserted: HOTELS + 2 }));
  });

  test('to standard output contains only the hotels', async () => {
    await fill();
    const { stdout, stderr } = await program.run(['export']);
    expect(stdout.trimEnd().split('\n')).toHaveLength(HOTELS);
    expect(stderr).toBe('');
    expect(await program.json(['import', '-'], stdout)).toEqual(counts({ unchanged: HOTELS }));
    expect(await program.run(['export', '--json'])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('--json needs a file'),
    });
  });

  test('two at once to the same file leave one complete file, and nothing beside it', async () => {
    await fill();
    const before = await readdir(program.folder);
    const both: Promise<Outcome>[] = [];
    await sql().begin(async (transaction) => {
      await transaction`lock table hotels in access exclusive mode`;
      both.push(program.run(['export', 'both.ndjson']), program.run(['export', 'both.ndjson']));
      // each has opened its file and waits for its first hotel
      await expect.poll(() => waitingForHotels(transaction)).toHaveLength(2);
    });
    for (const outcome of await Promise.all(both)) expect(outcome).toMatchObject({ code: 0, stderr: '' });
    expect(String(await read('both.ndjson')).match(/\n/g)).toHaveLength(HOTELS);
    expect(await readdir(program.folder)).toEqual([...before, 'both.ndjson'].sort());
  });

  test('a file that cannot be written is reported in one line with the reason', async () => {
    expect(await program.run(['export', 'no/such/folder'])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^hotel-api: cannot write no\/such\/folder \(ENOENT\).*\n$/),
    });
  });
});
