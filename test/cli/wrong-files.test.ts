import { once } from 'node:events';
import { appendFile, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { waitingForHotels } from '../support/postgres-client.ts';
import { counts, type Outcome, Program } from './program.ts';

/** Hotels of the table before each import: `h1` … */
const HOTELS = 1_000;

let program: Program;
const sql = () => program.database.sql;
beforeAll(async () => {
  program = await Program.set();
});
beforeEach(async () => {
  await sql()`truncate hotels`;
  await sql()`insert into hotels (id, name) select 'h' || i, 'Hotel ' || i from generate_series(1, ${HOTELS}) as i`;
});

const json = (first: number, last: number) =>
  Array.from(
    { length: last - first + 1 },
    (_, i) => `{"id":"h${first + i}","name":"Hotel ${first + i}"}\n`,
  ).join('');
const csv = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, i) => `h${first + i},Hotel ${first + i},\n`).join('');
const HEADER = 'id,name,city\n';
const put = async (name: string, content: string | Buffer) => {
  await writeFile(join(program.folder, name), content);
  return name;
};
const run = async (name: string, content: string | Buffer, ...options: string[]) =>
  program.run(['import', await put(name, content), ...options]);
// biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
const summary = async (name: string, content: string | Buffer, ...options: string[]): Promise<any> =>
  program.json(['import', await put(name, content), ...options]);
const ids = async () => (await sql()`select id from hotels order by id`).map(({ id }) => id);
const hotel = async (id: string) => (await sql()`select * from hotels where id = ${id}`)[0];

/** Expects that an import failed with this sentence, and changed no hotel. */
async function expectNothing(
  { code, stdout, stderr }: Outcome,
  sentence: RegExp,
  exitCode = 1,
): Promise<void> {
  expect(stderr).toMatch(sentence);
  expect({ code, stdout }).toEqual({ code: exitCode, stdout: '' });
  const [all] = await sql()`select count(*)::int as count from hotels where name = 'Hotel ' || substr(id, 2)`;
  expect(all!.count).toBe(HOTELS);
}

describe('a file that is still being written', () => {
  /** Runs an import that waits for its turn, and changes the file before it merges. */
  async function importWhile(change: () => Promise<unknown>): Promise<Outcome> {
    const name = await put('growing.ndjson', json(1, 900));
    const { outcome } = await sql().begin(async (holder) => {
      await holder`lock table hotels in row exclusive mode`;
      const started = program.start(['import', name, '--delete-missing']);
      await expect.poll(() => waitingForHotels(sql())).toHaveLength(1);
      await change();
      return started;
    });
    return outcome;
  }
  const changed = /growing\.ndjson was written or replaced while it was read; nothing was imported/;

  test('imports nothing, whether it grows or is replaced', async () => {
    const path = join(program.folder, 'growing.ndjson');
    await expectNothing(await importWhile(() => appendFile(path, json(901, 1_000))), changed);
    const replace = async () => rename(join(program.folder, await put('whole.ndjson', json(1, 900))), path);
    await expectNothing(await importWhile(replace), changed);
  });

  const half = json(1, 900);

  test.each([
    ['an expected number of lines', half, ['--expect-lines', '1000'], '--expect-lines says 1000'],
    ['the number in its last line', `${half}# 1000 hotels\n`, [], 'its last line says 1000'],
  ])('a stream without %s is not imported', async (_, input, options, sentence) => {
    await expectNothing(
      await program.run(['import', '-', '--delete-missing', ...options], input),
      new RegExp(`has 900 lines with hotels, ${sentence}; nothing was imported`),
    );
  });

  test.each([
    ['an expected number of lines', half, ['--expect-lines', '900']],
    ['that of CSV', `${HEADER}${csv(1, 900)}# 900 hotels\n`, []],
  ])('a stream with %s is whole', async (_, input, options) => {
    expect(await program.json(['import', '-', '--delete-missing', ...options], input)).toEqual(
      counts({ unchanged: 900, deleted: 100 }),
    );
  });

  test('a number of hotels in another line is a line like any other', async () => {
    expect(await program.json(['import', '-'], `# 900 hotels\n${half}`)).toMatchObject({ rejected: 1 });
  });
});

describe('mass deletion', () => {
  test('more than a fifth of the hotels is not deleted, and both numbers are named', async () => {
    await expectNothing(
      await run('three.ndjson', json(1, 3), '--delete-missing'),
      /997 of 1000 hotels would be deleted, at most 200 may be \(--delete-at-most\); nothing was imported/,
    );
    const { code, stdout } = await run('three.ndjson', json(1, 3), '--delete-missing', '--dry-run');
    expect(code).toBe(1);
    expect(stdout).toMatch(/997 deleted, 0 rejected\nThe import would fail: 997 of 1000 hotels/);
  });

  test('a fifth is deleted, and more if --delete-at-most allows it', async () => {
    await expectNothing(await run('most.ndjson', json(1, 799), '--delete-missing'), /201 of 1000/);
    expect(await summary('most.ndjson', json(1, 800), '--delete-missing')).toMatchObject({
      code: 0,
      deleted: 200,
    });
    const fewer = ['--delete-missing', '--delete-at-most'];
    expect((await run('few.ndjson', json(1, 400), ...fewer, '49%')).code).toBe(1);
    expect(await summary('few.ndjson', json(1, 400), ...fewer, '50%')).toMatchObject({
      code: 0,
      deleted: 400,
    });
    expect((await run('few.ndjson', json(1, 3), ...fewer, '396')).code).toBe(1);
    expect(await summary('few.ndjson', json(1, 3), ...fewer, '397')).toMatchObject({ code: 0, deleted: 397 });
  });
});

describe('quotes that swallow rows', () => {
  const swallowing = `${HEADER}h1,"Grand,X\nh2,Hotel 2,\nh3,Hotel 3,\nh4,Royal",Lyon\n${csv(5, HOTELS)}`;

  test('rows over several lines are counted and shown, and need --multiline to delete', async () => {
    await expectNothing(
      await run('grand.csv', swallowing, '--delete-missing'),
      /^hotel-api: 1 row\(s\) span several lines.*--multiline; nothing was imported\.\nhotel-api: 1 record over several lines, first in line 2\.\n$/,
    );
    expect(await summary('grand.csv', swallowing)).toMatchObject({
      code: 0,
      updated: 1,
      multiline: 1,
      notes: ['1 record over several lines, first in line 2.'],
    });
    expect(await ids()).toHaveLength(HOTELS);
    const allowed = ['--delete-missing', '--multiline'];
    expect(await summary('grand.csv', swallowing, ...allowed)).toMatchObject({ deleted: 3 });
  });
});

describe('joined parts', () => {
  const [one, two] = [gzipSync(json(1, 500)), gzipSync(json(501, HOTELS))];

  test('all members of gzip are read, and anything else behind one fails', async () => {
    expect(await summary('both.ndjson.gz', Buffer.concat([one, two]))).toEqual(counts({ unchanged: HOTELS }));
    for (const between of ['junk', '\0\0junk', '\0'.repeat(300 * 1024)])
      await expectNothing(
        await run('junk.ndjson.gz', Buffer.concat([one, Buffer.from(between), two])),
        /corrupt or truncated.*nothing was imported/,
      );
  });

  test('a row that repeats the header is left out and counted', async () => {
    const parts = `${HEADER}${csv(1, 500)}\ufeff"id", name ,city\r\n${csv(501, HOTELS)}${HEADER}`;
    expect(await summary('parts.csv', parts, '--delete-missing')).toEqual(
      counts({ unchanged: HOTELS, repeated_headers: 2 }),
    );
    expect(await hotel('id')).toBeUndefined();
  });
});

test.each([
  ['nothing.ndjson', ''],
  ['headers.csv', HEADER + HEADER],
  ['nothing.gz', gzipSync('')],
  ['array.json', '[\n]\n'],
  ['zero.ndjson', '# 0 hotels\n'],
])('%s has no hotel, and fails', async (name, content) => {
  await expectNothing(await run(name, content), /no hotel in the input/);
});

test('standard input without a hotel fails, and a dry run says so', async () => {
  const { code, stderr } = await program.run(['import', '-'], HEADER);
  expect([code, stderr]).toEqual([1, expect.stringMatching(/standard input: no hotel in the input/)]);
  const dry = await run('nothing.ndjson', '', '--dry-run');
  expect(dry).toMatchObject({ code: 1, stdout: expect.stringMatching(/The import would fail: .*no hotel/) });
});

describe('a file that ends midway', () => {
  const cut = `${HEADER}${csv(1, 998)}h999,Hotel 999,Lond`;

  test('is imported with a warning, without deletions', async () => {
    const { code, stderr } = await run('cut.csv', cut);
    expect(code).toBe(0);
    expect(stderr).toBe('line 1000: the file may end midway, no newline follows "h999,Hotel 999,Lond"\n');
    expect(await summary('cut.csv', cut, '--delete-missing')).toEqual({
      ...counts({ unchanged: 999 }),
      code: 1,
      failed: true,
      notes: ['No hotel is deleted: the file may end midway.'],
    });
    expect(await ids()).toHaveLength(HOTELS);
  });

  test('is whole if the number of lines is the expected one', async () => {
    expect(await summary('cut.csv', cut, '--delete-missing', '--expect-lines', '999')).toMatchObject({
      code: 0,
      deleted: 1,
    });
  });

  test('an object of JSON that is closed is whole, and one that is not is rejected', async () => {
    expect(await summary('whole.ndjson', json(1, 900).trimEnd(), '--delete-missing')).toEqual(
      counts({ unchanged: 900, deleted: 100 }),
    );
    const cutLine = counts({ unchanged: 799, rejected: 1 });
    expect(await summary('cut.ndjson', json(1, 800).slice(0, -20), '--delete-missing')).toEqual(cutLine);
    expect(await ids()).toHaveLength(900);
  });
});

describe('the wrong kind of file', () => {
  const array = [1, 2, 3].map((i) => ({ id: `h${i}`, name: `Hotel ${i}` }));

  test.each([
    ['hotels.ndjson.zst', zstdCompressSync(json(1, 9)), 'compressed with zstd'],
    ['hotels.zip', Buffer.from('PK\x03\x04\x14\0\0\0\x08\0'), 'a zip archive or an Excel workbook'],
    ['marked.csv', Buffer.from(`\ufeff${HEADER}${csv(1, 9)}`, 'utf16le'), 'UTF-16'],
    ['array.json', JSON.stringify(array), 'a JSON array in one line'],
    ['large.json', `[${'{"id":"x","name":"X"},'.repeat(60_000)}{}]`, 'a JSON array in one line'],
    ['pipes.csv', 'id|name|city\nh1|Hotel 1|Lyon\n', 'separated by pipes'],
    ['packed.gz', gzipSync(Buffer.from(json(1, 9), 'utf16le')), 'UTF-16'],
    ['error.html', '<!DOCTYPE html><title>404</title>\n', 'HTML or XML'],
  ])('%s is named in one sentence, with exit code 2', async (name, content, kind) => {
    const outcome = await run(name, content);
    expect(outcome.stderr.split('\n')).toHaveLength(2);
    await expectNothing(outcome, new RegExp(`^hotel-api: ${name} is ${kind}, not NDJSON or CSV`), 2);
  });

  test.each([
    ['commas', json(1, 3).replaceAll('\n', ',\n')],
    ['an array that begins and ends with hotels', `[${json(1, 3).trimEnd().replaceAll('\n', ',\r\n')}]`],
    ['an indented array', JSON.stringify(array, null, 2)],
    ['hotels over lines', array.map((one) => JSON.stringify(one, null, 2)).join('\n')],
  ])('JSON with %s is read', async (_, content) => {
    expect(await summary('hotels.json', content)).toMatchObject({ code: 0, unchanged: 3, lines: 3 });
  });
});

test.each(['SIGINT', 'SIGKILL'] as const)(
  '%s ends an import and its turn, and leaves nothing',
  async (signal) => {
    const name = await put('new.ndjson', json(1, HOTELS + 1));
    const { outcome } = await sql().begin(async (holder) => {
      await holder`lock table hotels in row exclusive mode`;
      const started = program.start(['import', name]);
      const waiting = () => waitingForHotels(sql());
      await expect.poll(waiting).toHaveLength(1);
      started.child.kill(signal);
      // the server looks for its client every second
      await expect.poll(waiting).toHaveLength(0);
      expect((await program.run(['import', name, '--no-wait', '--dry-run'])).code).toBe(0);
      return started;
    });
    const { code, stderr, stdout } = await outcome;
    expect([code, stdout]).toEqual([signal === 'SIGINT' ? 1 : null, '']);
    if (signal === 'SIGINT') expect(stderr).toMatch(/hotel-api: Interrupted.*\n/);
    expect(await summary('new.ndjson', json(1, HOTELS + 1))).toMatchObject({ code: 0, inserted: 1 });
  },
);

test('a server error after all lines are sent ends the import', async () => {
  // a trigger at the end of the copy
  await sql().unsafe(`
    create function fail() returns trigger language plpgsql as $$
    begin raise disk_full using message = 'no room'; end $$;
    create function watch_staging() returns event_trigger language plpgsql as $$
    declare made record;
    begin
      for made in select * from pg_event_trigger_ddl_commands() where object_identity ~ 'staged$' loop
        execute format('create trigger fails after insert on %s execute function fail()', made.objid::regclass);
      end loop;
    end $$;
    create event trigger watch_staging on ddl_command_end when tag in ('CREATE TABLE AS') execute function watch_staging()`);
  const outcome = await run('one.ndjson', json(1, 1));
  await sql()`drop event trigger watch_staging`;
  await expectNothing(
    outcome,
    /^hotel-api: PostgreSQL rejected the statement \(53100\): no room\. Nothing was changed\.\n$/,
  );
});

const RUNS = 'another import is running \\(\\w+ from .* since 20.*, backend \\d+\\)';

test('of two imports at once the second waits, or fails with --no-wait, and says who runs the other', async () => {
  const old = await put('old.ndjson', '{"id":"h1","name":"old"}\n');
  const fresh = await put('new.ndjson', '{"id":"h1","name":"new"}\n');
  const outcomes = await sql().begin(async (holder) => {
    await holder`lock table hotels in row exclusive mode`;
    const first = program.start(['import', old]).outcome;
    const waiting = () => sql()`
      select from pg_stat_activity
      where datname = current_database() and application_name = 'hotel-api operate' and wait_event = 'relation'`;
    await expect.poll(waiting).toHaveLength(1);
    expect(await program.run(['import', fresh, '--no-wait'])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(new RegExp(`^hotel-api: ${RUNS}; nothing was imported.*\\n$`)),
    });
    const second = program.start(['import', fresh]);
    await once(second.child.stderr!, 'data');
    return [first, second.outcome];
  });
  const [first, second] = await Promise.all(outcomes);
  expect([first!.code, second!.code]).toEqual([0, 0]);
  expect(second!.stderr).toMatch(new RegExp(`^waiting: ${RUNS}\\n$`));
  expect((await hotel('h1'))!.name).toBe('new');
});

test('a clean import removes the rejected lines of an earlier one', async () => {
  const rejected = () =>
    readFile(join(program.folder, 'nightly.csv.rejected.csv'), 'utf8').catch(() => 'none');
  expect((await run('nightly.csv', `${HEADER},Nameless,\n`)).code).toBe(1);
  expect(await rejected()).toBe(`${HEADER},Nameless,\n`);
  await put('nightly.csv.rejected.ndjson', '{}\n');
  expect((await run('nightly.csv', `${HEADER}${csv(1, 3)}`)).code).toBe(0);
  expect(await rejected()).toBe('none');
  expect(
    await readFile(join(program.folder, 'nightly.csv.rejected.ndjson'), 'utf8').catch(() => 'none'),
  ).toBe('none');
});

test('a person and --json get the same summary, with every counter', async () => {
  const args = ['all.csv', `${HEADER}a,"A\n1",NULL\na,A,\n${HEADER}b,B,\n,C,\n`, '--dry-run'] as const;
  const expected = counts({
    inserted: 2,
    rejected: 1,
    superseded: 1,
    multiline: 1,
    repeated_headers: 1,
    nulls: 1,
  });
  const { code, stdout } = await run(...args);
  const printed = await summary(...args);
  expect(printed).toEqual(expected);
  expect(printed.notes).toHaveLength(5);
  expect({ code, stdout }).toEqual({
    code: 1,
    stdout: [
      'Dry run, nothing was changed. An import would be: 2 inserted, 0 updated, 0 unchanged, 0 deleted, 1 rejected',
      ...printed.notes,
      '',
    ].join('\n'),
  });
});

test('a hotel whose JSON is larger than 64 KiB is rejected, and the line is named', async () => {
  const line = (id: string, size: number) =>
    `${JSON.stringify({ id, name: 'A', description: 'x'.repeat(size) })}\n`;
  const { code, stderr } = await run('large.ndjson', line('a', 60_000) + line('b', 70_000));
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: 'line 2: violates the constraint hotels_json_is_at_most_64_kib\n',
  });
});
