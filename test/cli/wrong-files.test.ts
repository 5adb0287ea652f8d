import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { beforeEach, describe, expect, test } from 'vitest';
import { waitingForHotels } from '../support/postgres-client.ts';
import { counts, importHere, Program, put } from './program.ts';

/** Hotels of the table before each import: `h1` … */
const HOTELS = 1_000;

const program = await Program.set();
const { sql } = program.database;
beforeEach(async () => {
  await sql`truncate hotels`;
  await sql`insert into hotels (id, name) select 'h' || i, 'Hotel ' || i from generate_series(1, ${HOTELS}) as i`;
});

/** Returns a line for each hotel of these numbers. */
const linesOf = (first: number, last: number, line: (i: number) => string) =>
  Array.from({ length: last - first + 1 }, (_, n) => line(first + n)).join('');
const json = (first: number, last: number) =>
  linesOf(first, last, (i) => `{"id":"h${i}","name":"Hotel ${i}"}\n`);
const csv = (first: number, last: number) => linesOf(first, last, (i) => `h${i},Hotel ${i},\n`);
const HEADER = 'id,name,city\n';
const DELETE = '--delete-missing';
const run = (...args: [name: string, content: string | Buffer, ...options: string[]]) =>
  importHere(program, ...args);
const hotel = async (id: string) => (await sql`select * from hotels where id = ${id}`)[0];

/** Expects that an import failed with this sentence, and changed no hotel. */
async function expectNothing(importing: ReturnType<typeof run>, sentence: string | RegExp, code = 1) {
  expect(await importing).toEqual({ code, failure: expect.any(String) });
  expect((await importing).failure).toMatch(sentence);
  const [all] = await sql`select count(*)::int as count from hotels where name = 'Hotel ' || substr(id, 2)`;
  expect(all!.count).toBe(HOTELS);
}

describe('a file that is still being written', () => {
  test.each<[what: string, change: (path: string) => Promise<unknown>]>([
    ['grows', (path) => appendFile(path, json(901, 1_000))],
    ['is replaced', async (path) => rename(await put(program, 'whole.ndjson', json(1, 900)), path)],
  ])('imports nothing if it %s', async (_, change) => {
    const { importing } = await sql.begin(async (holder) => {
      await holder`lock table hotels in row exclusive mode`;
      const importing = run('growing.ndjson', json(1, 900), DELETE);
      await expect.poll(() => waitingForHotels(sql)).toHaveLength(1);
      await change(join(program.folder, 'growing.ndjson'));
      return { importing };
    });
    const changed = 'growing.ndjson was written or replaced while it was read; nothing was imported';
    await expectNothing(importing, changed);
  });

  test('is whole if its last line is a JSON object that is closed', async () => {
    const { length } = 'Hotel 900"}\n';
    const cut = json(1, 900).slice(0, -length);
    await expectNothing(run('cut.ndjson', cut, DELETE), '1 rejected line(s) have no readable id');
    expect(await run('cut.ndjson', cut)).toMatchObject({ unchanged: 899, rejected: 1 });
    expect(await run('whole.ndjson', json(1, 900).trimEnd(), DELETE)).toMatchObject({ deleted: 100 });
  });
});

test('more than a fifth of the hotels is not deleted, unless --delete-at-most allows it', async () => {
  const why = '997 of 1000 hotels would be deleted, at most 200 may be (--delete-at-most)';
  await expectNothing(run('three.ndjson', json(1, 3), DELETE), `${why}; nothing was imported`);
  const dry = await run('three.ndjson', json(1, 3), DELETE, '--dry-run');
  expect(dry).toMatchObject({ code: 1, deleted: 997, notes: [`The import would fail: ${why}.`] });
  await expectNothing(run('most.ndjson', json(1, 799), DELETE), '201 of 1000');
  expect(await run('most.ndjson', json(1, 800), DELETE)).toMatchObject({ code: 0, deleted: 200 });
  for (const [last, few, enough] of [
    [400, '49%', '50%'],
    [3, '396', '397'],
  ] as const) {
    const take = (amount: string) => run('few.ndjson', json(1, last), DELETE, '--delete-at-most', amount);
    expect(await take(few)).toMatchObject({ code: 1, failure: expect.anything() });
    expect(await take(enough)).toMatchObject({ code: 0 });
  }
});

test('all members of gzip are read, and anything else behind one fails', async () => {
  const [one, two] = [gzipSync(json(1, 500)), gzipSync(json(501, HOTELS))];
  expect(await run('both.ndjson.gz', Buffer.concat([one, two]))).toEqual(counts({ unchanged: HOTELS }));
  for (const between of ['junk', '\0\0junk', '\0'.repeat(300 * 1024)])
    await expectNothing(
      run('junk.ndjson.gz', Buffer.concat([one, Buffer.from(between), two])),
      /corrupt or truncated.*nothing was imported/,
    );
});

test.each([
  ['nothing.ndjson', ''],
  ['headers.csv', HEADER + HEADER],
  ['nothing.gz', gzipSync('')],
])('%s has no hotel, and fails', async (name, content) => {
  await expectNothing(run(name, content), 'no hotel in the input');
  const dry = await run(name, content, '--dry-run');
  expect(dry).toMatchObject({ code: 1, notes: [expect.stringMatching(/would fail: .*no hotel/)] });
});

describe('the wrong kind of file', () => {
  const array = [1, 2, 3].map((i) => ({ id: `h${i}`, name: `Hotel ${i}` }));

  test.each([
    ['hotels.ndjson.zst', zstdCompressSync(json(1, 9))],
    ['hotels.zip', Buffer.from('PK\x03\x04\x14\0\0\0\x08\0')],
    ['marked.csv', Buffer.from(`\ufeff${HEADER}${csv(1, 9)}`, 'utf16le')],
    ['array.json', JSON.stringify(array)],
    ['objects.json', array.map((one) => JSON.stringify(one, null, 2)).join('\n')],
    ['pipes', 'id|name|city\nh1|Hotel 1|Lyon\n'],
    ['packed.gz', gzipSync(Buffer.from(json(1, 9), 'utf16le'))],
    ['error.html', '<!DOCTYPE html><title>404</title>\n'],
    ['headless.csv', 'a,A,4\n'],
  ])('%s is rejected in one sentence, with exit code 2', async (name, content) => {
    await expectNothing(run(name, content), `${name} is neither NDJSON nor CSV in UTF-8`, 2);
  });

  test.each([
    ['stars.csv', 'id,name,stars\na,A,4\n', /unknown field "stars".*Its fields are/],
    ['twice.csv', 'id,name,id\na,A,a\n', /"id" is repeated/],
    ['nameless.csv', 'id,city\na,Rome\n', /"name" is missing/],
    ['cut.gz', gzipSync(json(1, 900)).subarray(0, 4_000), /corrupt or truncated.*nothing was imported/],
  ])('%s is rejected as a whole, with a remedy', async (name, content, sentence) => {
    await expectNothing(run(name, content), sentence);
  });
});

/** Runs `work` while an import, in a process of its own, holds its turn and waits for the hotels. */
const whileWaiting = <T>(path: string, work: (started: ReturnType<Program['start']>) => Promise<T>) =>
  sql.begin(async (holder) => {
    await holder`lock table hotels in row exclusive mode`;
    const started = program.start(['import', path]);
    await expect.poll(() => waitingForHotels(sql)).toHaveLength(1);
    return { started, result: await work(started) };
  });

test.each<
  [what: string, end: (child: ChildProcess) => unknown, code: number | null, stderr: string | RegExp]
>([
  ['SIGINT', (child) => child.kill('SIGINT'), 1, /^hotel-api: Interrupted.*\n$/m],
  ['SIGKILL', (child) => child.kill('SIGKILL'), null, ''],
  [
    'a lost connection',
    () => sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'hotel-api operate' and wait_event_type = 'Lock'`,
    1,
    /^hotel-api: .*connection was lost.*\n$/,
  ],
])('%s ends an import and its turn, and leaves nothing', async (_, end, code, stderr) => {
  const content = json(1, HOTELS + 1);
  const { started } = await whileWaiting(await put(program, 'new.ndjson', content), async ({ child }) => {
    await end(child);
    // the server looks for its client every second
    await expect.poll(() => waitingForHotels(sql)).toHaveLength(0);
    expect((await run('new.ndjson', content, '--dry-run')).code).toBe(0);
    expect(program.printed).toBe('');
  });
  const outcome = await started.outcome;
  expect(outcome).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(stderr) });
  expect(await run('new.ndjson', content)).toMatchObject({ code: 0, inserted: 1 });
});

test('of two imports at once the second waits, and says who runs the other', async () => {
  const RUNS = 'another import is running \\(\\w+ from .* since 20.*, backend \\d+\\)';
  const old = await put(program, 'old.ndjson', '{"id":"h1","name":"old"}\n');
  const fresh = '{"id":"h1","name":"new"}\n';
  const { started, result } = await whileWaiting(old, async () => {
    const second = program.start(['import', await put(program, 'new.ndjson', fresh)]);
    await once(second.child.stderr!, 'data');
    return second;
  });
  expect((await started.outcome).code).toBe(0);
  const { code, stderr } = await result.outcome;
  expect([code, stderr]).toEqual([0, expect.stringMatching(new RegExp(`^waiting: ${RUNS}\\n$`))]);
  expect((await hotel('h1'))!.name).toBe('new');
});
