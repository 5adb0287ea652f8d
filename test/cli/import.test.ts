import { lstat, readdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { IMPORTED_COLUMNS } from '../../src/cli/import/hotel.ts';
import { hotelAt } from '../../src/cli/seed/hotel.ts';
import { counts, importHere, Program, put } from './program.ts';

const program = await Program.set();
const { sql } = program.database;
const run = (...args: [name: string, content: string | Buffer, ...options: string[]]) =>
  importHere(program, ...args);
const read = (name: string) => readFile(join(program.folder, name), 'utf8');
const linesOf = (hotels: object[]) => hotels.map((hotel) => `${JSON.stringify(hotel)}\n`).join('');

describe('every format', () => {
  const HOTELS = 300;
  const made = Array.from({ length: HOTELS }, (_, i) => ({
    ...hotelAt(i, 1, '2026-06-01'),
    // characters that CSV must quote
    description: i % 7 === 0 ? `"Bom dia",\r\n\n; disse\to gato\\ n.º ${i}` : null,
    registry_id: i === 0 ? '9007199254740991' : String(500_001 + i),
  }));
  const cell = (value: unknown) => {
    const text = value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
    return /["\n\r,;\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (delimiter = ',', newline = '\n', columns: string[] = IMPORTED_COLUMNS) =>
    [columns, ...made.map((hotel) => columns.map((column) => cell(hotel[column as keyof typeof hotel])))]
      .map((cells) => cells.join(delimiter) + newline)
      .join('');
  const ndjson = linesOf(made);
  const rows = () => sql`select ${sql(IMPORTED_COLUMNS)} from hotels order by id`;
  let imported: Awaited<ReturnType<typeof rows>>;
  beforeAll(async () => {
    await sql`truncate hotels`;
    expect(await run('hotels.ndjson', ndjson)).toEqual(counts({ inserted: HOTELS }));
    imported = await rows();
  });
  beforeEach(async () => {
    await sql`truncate hotels`;
  });

  test.each([
    ['hotels.csv.gz', gzipSync(csv())],
    ['excel.csv', `\ufeff${csv(';', '\r\n')}`],
    ['turned.tsv', csv('\t', '\n', IMPORTED_COLUMNS.toReversed())],
    // neither name has the extension of its format
    ['hotels', csv()],
    ['hotels.dat', gzipSync(ndjson)],
  ])('%s yields the same hotels as NDJSON', async (name, content) => {
    expect(await run(name, content)).toEqual(counts({ inserted: HOTELS }));
    expect(await rows()).toEqual(imported);
    expect(await run(name, content)).toEqual(counts({ unchanged: HOTELS }));
  });

  test('is read from standard input too, and statistics of the hotels are left', async () => {
    await sql`delete from pg_statistic where starelid = 'hotels'::regclass`;
    expect(await program.json(['import', '-'], gzipSync(csv()))).toEqual(counts({ inserted: HOTELS }));
    const [found] = await sql`select n_distinct from pg_stats where tablename = 'hotels' and attname = 'id'`;
    expect(found).toEqual({ n_distinct: -1 });
  });

  test('a dry run reports the changes and the faults, writes no hotel, and waits for no other writer', async () => {
    await run('hotels.ndjson', ndjson);
    const wrong = Array.from({ length: 30 }, (_, i) => `{"id":"w${i}"}\n`).join('');
    const noted = () =>
      sql`select (select last_value from hotel_api_queue_number_seq) as drawn, (select count(*) from hotels) as hotels`;
    const before = await noted();
    const content =
      linesOf([
        { ...made[0], city: 'Rome' },
        { id: 'new', name: 'N' },
      ]) + wrong;
    const options = ['--dry-run', '--delete-missing', '--delete-at-most', '100%'];
    await sql.begin(async (holder) => {
      await holder`lock table hotels in row exclusive mode`;
      expect(await run('dry.ndjson', content, ...options)).toEqual(
        counts({ inserted: 1, updated: 1, deleted: HOTELS - 1, rejected: 30 }),
      );
    });
    expect(program.printed.trimEnd().split('\n')).toEqual([
      ...Array.from({ length: 30 }, (_, i) => expect.stringMatching(`^line ${i + 3}: name is missing`)),
    ]);
    expect(await noted()).toEqual(before);
  });
});

// src/cli/import/csv.test.ts has every kind of wrong row
test('invalid rows of CSV are reported by line and reason, and written as CSV that can be corrected', async () => {
  const header = 'id,name,star_rating';
  const rows = ['a,A,4.3', 'b,"B\nof two lines",', 'c,C', 'g,G"G,', 'h,H,4.5'];
  await sql`truncate hotels`;
  expect(await run('wrong.csv.gz', gzipSync(`${[header, ...rows].join('\n')}\n`))).toEqual(
    counts({ inserted: 2, rejected: 3 }),
  );
  expect(program.printed.split('\n')).toEqual([
    expect.stringMatching(/^line 2: star_rating must be/),
    expect.stringMatching(/^line 5: it has 2 cells, the header row names 3 fields/),
    expect.stringMatching(/^line 6: a quote is not closed: it would swallow 1 line after it/),
    '',
  ]);
  expect(await read('wrong.csv.gz.rejected.csv')).toBe(`${[header, rows[0], rows[2], rows[3]].join('\n')}\n`);
});

describe('with few hotels', () => {
  const A = { id: 'a', name: 'A', channel_id: 'one', registry_id: 1 };
  const B = { id: 'b', name: 'B', channel_id: 'two', registry_id: 2 };
  const C = { id: 'c', name: 'C', channel_id: 'three', registry_id: '0003' };
  const take = (hotels: object[], ...options: string[]) => run('few.ndjson', linesOf(hotels), ...options);
  beforeEach(async () => {
    await sql`truncate hotels`;
    await sql`insert into hotels ${sql([A, B, C])}`;
  });
  const channels = async () => {
    const rows = await sql`select id, channel_id from hotels order by id`;
    return Object.fromEntries(rows.map((row) => [row.id, row.channel_id]));
  };
  const rejected = () => read('few.ndjson.rejected.ndjson');

  const D = { id: 'd', name: 'D' };
  const taken = { ...A, channel_id: 'three' };
  const dependent = { ...B, channel_id: 'one' };
  const claimant = { ...D, registry_id: 1 };

  test.each<
    [what: string, hotels: object[], of: Parameters<typeof counts>[0], channels: object, wrong?: object[]]
  >([
    [
      'a line replaces the whole hotel, and each hotel is counted once',
      [{ ...A, name: 'older' }, { ...B, city: 'Porto' }, D, { id: 'a', name: 'A' }],
      { inserted: 1, updated: 2 },
      { a: null, b: 'two', c: 'three', d: null },
    ],
    [
      'hotels exchange ids within one import',
      [
        { ...A, channel_id: 'two', registry_id: 3 },
        { ...B, channel_id: 'three', registry_id: 1 },
        { ...C, channel_id: null, registry_id: 2 },
        { ...D, channel_id: 'one' },
      ],
      { inserted: 1, updated: 3 },
      { a: 'two', b: 'three', c: null, d: 'one' },
    ],
    [
      'an id that another hotel keeps is rejected, and so are lines that depended on the rejected one',
      [dependent, taken, D],
      { inserted: 1, rejected: 2 },
      { a: 'one', b: 'two', c: 'three', d: null },
      [dependent, taken],
    ],
    [
      'a hotel keeps its own id against an earlier line that claims it',
      [claimant, { ...A, city: 'Rome' }],
      { updated: 1, rejected: 1 },
      { a: 'one', b: 'two', c: 'three' },
      [claimant],
    ],
  ])('%s', async (_, hotels, of, after, wrong) => {
    expect(await take(hotels)).toEqual(counts(of));
    expect(await channels()).toEqual(after);
    if (wrong) expect(await rejected()).toBe(linesOf(wrong));
  });

  test('delete-missing frees the ids of deleted hotels, and keeps a hotel with an invalid line', async () => {
    const options = ['--delete-missing', '--delete-at-most', '70%'];
    const hotels = [
      { ...A, latitude: 91 },
      { ...D, channel_id: 'two' },
    ];
    expect(await take(hotels, ...options)).toEqual(counts({ inserted: 1, deleted: 2, rejected: 1 }));
    expect(await channels()).toEqual({ a: 'one', d: 'two' });
  });

  test('a chain of many lines that depend on a rejected one imports nothing, and holds no writer up', async () => {
    const chain = Array.from({ length: 30 }, (_, i) => ({ id: `n${i}`, name: 'N', channel_id: `c${i}` }));
    expect(await take(chain)).toEqual(counts({ inserted: 30 }));
    const moved = chain.map((hotel, i) => ({ ...hotel, channel_id: i < 29 ? `c${i + 1}` : 'three' }));
    const { failure } = await take(moved);
    expect(failure).toContain('over 20 hotels pass channel or registry ids on');
    expect(await channels()).toMatchObject({ n0: 'c0', n29: 'c29' });
  });

  test('a line with control sequences, and one with NULs, are rejected, and no control character is printed', async () => {
    const lines = [`{"id":\x1b[2J`, '\0'.repeat(5), JSON.stringify({ id: 'x', name: 'X', '\x9b31m': 1 })];
    const content = `${linesOf([D])}${lines.join('\n')}\n`;
    expect(await run('few.ndjson', content)).toEqual(counts({ inserted: 1, rejected: 3 }));
    expect(program.printed).toMatch(/^line 2: .*\\u001b.*\nline 3: .*\\u0000.*\nline 4: .*\\u009b/m);
    expect(program.printed).not.toMatch(/[\0-\x08\x0b-\x1f\x7f-\x9f]/);
    expect(await rejected()).toBe(`${lines.join('\n')}\n`);
  });

  test('of a line that is too long the first MiB is kept', async () => {
    await run('few.ndjson', `${'{"id"'.padEnd(3 * 2 ** 20)}\n{"id":"z","name":"Z"}\n`);
    expect(await rejected()).toBe(`${'{"id"'.padEnd(2 ** 20)}\n`);
  });

  test('a hotel whose JSON is larger than 64 KiB is rejected, and the line is named', async () => {
    const hotel = (id: string, size: number) => ({ id, name: 'A', description: 'x'.repeat(size) });
    expect(await take([hotel('x', 60_000), hotel('y', 70_000)])).toMatchObject({ inserted: 1, rejected: 1 });
    expect(program.printed).toBe('line 2: violates the constraint hotels_json_is_at_most_64_kib\n');
  });

  test('rejected lines replace a symbolic link, not its target, and only their owner can read them', async () => {
    const path = join(program.folder, 'linked.ndjson.rejected.ndjson');
    await symlink(await put(program, 'precious', 'precious'), path);
    expect((await run('linked.ndjson', '{"id"\n')).code).toBe(1);
    expect(await read('precious')).toBe('precious');
    expect(await readFile(path, 'utf8')).toBe('{"id"\n');
    const { mode } = await lstat(path);
    expect(mode.toString(8)).toBe('100600');
  });

  test('an import without the rejected lines removes those of an earlier one', async () => {
    expect((await run('nightly.csv', 'id,name\n,Nameless\n')).code).toBe(1);
    expect(await read('nightly.csv.rejected.csv')).toBe('id,name\n,Nameless\n');
    expect((await run('nightly.csv', 'id,name\na,A\n')).code).toBe(0);
    expect((await readdir(program.folder)).filter((name) => name.startsWith('nightly'))).toEqual([
      'nightly.csv',
    ]);
  });

  test('nothing is imported if the rejected lines cannot be written', async () => {
    const { failure } = await run('x'.repeat(245), `${linesOf([D])}{\n`);
    expect(failure).toContain('Nothing was imported');
    expect(Object.keys(await channels())).toEqual(['a', 'b', 'c']);
    if (process.platform !== 'linux') return;
    // over 1,000 lines that are no hotels, beside which no file can be created
    await expect(program.here(['import', '/proc/self/smaps'])).rejects.toThrow('Nothing was imported');
  });
});

test('a person and --json get the same summary, with every counter', async () => {
  await sql`truncate hotels`;
  const path = await put(
    program,
    'all.csv',
    'id,name,city,website_url\na,"A",NULL,https://größe.de/\na,A,,\nb,B,,\n,C,,',
  );
  const args = ['import', path, '--dry-run'];
  const printed = await program.json(args);
  expect(printed).toEqual(counts({ inserted: 2, rejected: 1, converted_uris: 1 }));
  expect(printed.notes).toEqual([
    '1 IRI converted to URIs (percent-encoding, punycode).',
    expect.stringMatching(/^The rejected lines are in /),
  ]);
  const { code, stdout } = await program.run(args);
  const first =
    'Dry run, nothing was changed. An import would be: 2 inserted, 0 updated, 0 unchanged, 0 deleted, 1 rejected';
  expect({ code, stdout }).toEqual({ code: 1, stdout: [first, ...printed.notes, ''].join('\n') });
});

test('the same seed and day give the same generated hotels, and another seed others', () => {
  const hotels = (seed: number) => Array.from({ length: 50 }, (_, i) => hotelAt(i, seed, '2026-06-01'));
  expect(hotels(1)).toEqual(hotels(1));
  expect(hotels(2)).not.toEqual(hotels(1));
});
