import { createServer } from 'node:http';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { read } from '../documents/files.ts';
import { listen } from '../support/cleanup.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { Operator } from './operator.ts';

await needs('bash', 'curl', 'psql');

const HOTELS = 100;
const linesOf = (count: number) =>
  Array.from({ length: count }, (_, i) => `{"id":"h${i}","name":"Hotel ${i}"}\n`).join('');

/** What the supplier sends; `cut` ends the connection halfway. */
let offered = { file: gzipSync(linesOf(HOTELS)), cut: false };
let database: FreshDatabase;
let operator: Operator;
let job: string;

beforeAll(async () => {
  const supplier = createServer((_, response) => {
    response.writeHead(200, { 'content-length': offered.file.length });
    if (offered.cut)
      response.write(offered.file.subarray(0, offered.file.length / 2), () => response.destroy());
    else response.end(offered.file);
  });
  database = await freshDatabase();
  operator = await Operator.set({ DATABASE_URL: database.ownerUrl });
  const [, block] = /### A nightly job\n\n```sh\n([\s\S]*?)^```/m.exec(read('docs/operations/import.md'))!;
  job = block!
    .replace('/var/lib/hotels', operator.folder)
    .replace('https://supplier.example', `http://127.0.0.1:${await listen(supplier)}`);
});

const count = async () => (await database.sql`select count(*)::int as count from hotels`)[0]!.count;

it('the export of the documents can be imported again without a change', async () => {
  const { sql } = database;
  await sql`
    insert into hotels (id, name, description, images, latitude, star_rating, certified_from, registry_id) values
    ('Ä" \\ \t', 'x', E'a\nb', '[{"url":"https://a/b"}, {"url":"https://a/c","caption":"c"}]', 1e-7, 4, '0001-01-01', null),
    ('z', 'y', null, '[{"caption":null,"url":"https://a/b"}]', -0.0, 4.5, null, 9007199254740991)`;
  await operator.types(
    /^psql .* > before\.ndjson\.gz$/m.exec(read('docs/operations/import.md').split('## Export')[1]!)![0],
  );
  const again = 'hotel-api import before.ndjson.gz --json';
  expect(JSON.parse(await operator.types(`${again} --delete-missing`))).toMatchObject({
    unchanged: 2,
    rejected: 0,
  });
  await sql`truncate hotels`;
  expect(JSON.parse(await operator.types(again))).toMatchObject({ inserted: 2 });
  await sql`truncate hotels`;
});

describe('the nightly job of the documents', () => {
  it('imports a whole file, and the same again', async () => {
    for (let night = 0; night < 2; night++) {
      await operator.types(job);
      expect(await count()).toBe(HOTELS);
    }
    expect(JSON.parse(await operator.types('cat summary.json'))).toMatchObject({ unchanged: HOTELS });
  });

  it.each([
    ['is cut off', { file: gzipSync(linesOf(HOTELS)), cut: true }, /curl/],
    ['is truncated', { file: gzipSync(linesOf(HOTELS)).subarray(0, -50), cut: false }, /gzip/],
    ['lacks most hotels', { file: gzipSync(linesOf(3)), cut: false }, /97 of 100 hotels would be deleted/],
    ['has a wrong line', { file: gzipSync(`${linesOf(HOTELS)}{"id":"x"}\n`), cut: false }, /name is missing/],
  ])('changes nothing if the file %s, and says why', async (_, file, reason) => {
    offered = file;
    const { code, stdout, stderr } = await operator.tries(job);
    expect(code).not.toBe(0);
    expect(stdout + stderr).toMatch(reason);
    expect(await count()).toBe(HOTELS);
  });

  it('imports the good lines in spite of a bad one, as the page says', async () => {
    offered = { file: gzipSync(`${linesOf(HOTELS + 1)}{"id":"x"}\n`), cut: false };
    const { code } = await operator.tries(job.replace('--dry-run', '--dry-run || test $? = 1'));
    expect(code).toBe(1);
    expect(await count()).toBe(HOTELS + 1);
    expect(await operator.types('cat hotels.ndjson.gz.rejected.ndjson')).toBe('{"id":"x"}\n');
  });
});
