import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { IMPORTED_COLUMNS } from '../../src/cli/import/hotel.ts';
import { waitingForHotels } from '../support/postgres-client.ts';
import { counts, importHere, type Outcome, Program } from './program.ts';

const HOTELS = 4;
const program = await Program.set();
const { sql } = program.database;
// values that other systems may store and the importer would reject
await sql`
  insert into hotels (id, name, images, latitude, certified_from, registry_id) values
  ('Ä" \\ \t', 'x', '[{"url":"https://a/b"},{"url":"https://a/c","caption":"c","size":7}]', 1e-7, '0001-01-01', null),
  ('z', 'y', '[{"caption":null,"url":"https://a/b"}]', -0.0, null, 9007199254740991),
  ('b', 'B', '[]', null, null, 7), ('a', 'A', '[]', null, null, null)`;
const read = (name: string) => readFile(join(program.folder, name));

describe('export', () => {
  test('can be imported again without a change', async () => {
    const file = 'all.ndjson.gz';
    expect(await program.json(['export', file])).toEqual({ code: 0, exported: HOTELS, file });
    const exported = await read(file);
    const lines = String(gunzipSync(exported)).trimEnd().split('\n');
    expect(Object.keys(JSON.parse(lines[0]!))).toEqual(IMPORTED_COLUMNS);
    // ordered byte by byte
    expect(lines.map((line) => JSON.parse(line).id)).toEqual(['a', 'b', 'z', 'Ä" \\ \t']);
    expect(lines.join()).toContain('"registry_id":9007199254740991}');
    const whole = counts({ unchanged: HOTELS });
    expect(await importHere(program, file, exported, '--delete-missing')).toEqual(whole);
    await sql`truncate hotels`;
    expect(await importHere(program, file, exported)).toEqual(counts({ inserted: HOTELS }));
  });

  test('to standard output contains only the hotels', async () => {
    const { stdout, stderr } = await program.run(['export']);
    expect(stdout.trimEnd().split('\n')).toHaveLength(HOTELS);
    expect(stderr).toBe('');
  });

  test('two at once to the same file leave one complete file, and nothing beside it', async () => {
    const before = await readdir(program.folder);
    const both: Promise<Outcome>[] = [];
    await sql.begin(async (transaction) => {
      await transaction`lock table hotels in access exclusive mode`;
      both.push(program.run(['export', 'both.ndjson']), program.run(['export', 'both.ndjson']));
      // each has opened its file and waits for its first hotel
      await expect.poll(() => waitingForHotels(transaction)).toHaveLength(2);
    });
    for (const outcome of await Promise.all(both)) expect(outcome).toMatchObject({ code: 0, stderr: '' });
    expect(String(await read('both.ndjson')).match(/\n/g)).toHaveLength(HOTELS);
    expect(await readdir(program.folder)).toEqual([...before, 'both.ndjson'].sort());
  });

  test.each([
    [['--json'], 2, /--json needs a file/],
    [['no/such/folder'], 1, /^hotel-api: cannot write no\/such\/folder \(ENOENT\).*\n$/],
  ])('%j fails with the reason', async (args, code, reason) => {
    const outcome = await program.run(['export', ...args]);
    expect(outcome).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(reason) });
  });
});
