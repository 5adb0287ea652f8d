import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { type Service, startService } from '../support/service.ts';
import { Program } from './program.ts';

const HOTELS = Array.from({ length: 1_200 }, (_, i) => ({ id: `h${i}`, registry_id: i }));

let service: Service;
let program: Program;

beforeAll(async () => {
  service = await startService({ hotels: HOTELS });
  program = await Program.set(service.database);
});

const mirror = (...options: string[]) =>
  program.run(['mirror', service.url, 'copy.ndjson', '--json', ...options], '', {
    HOTEL_API_KEY: service.fullKey,
  });

/** The lines that `export` writes, without what the API alone shows. */
async function exported(): Promise<unknown[]> {
  return hotelsOf((await program.run(['export'])).stdout);
}

async function copied(): Promise<unknown[]> {
  return hotelsOf(await readFile(join(program.folder, 'copy.ndjson'), 'utf8'));
}

const hotelsOf = (ndjson: string): unknown[] =>
  ndjson
    .trim()
    .split('\n')
    .map((line) => {
      const { certified: _, ...hotel } = JSON.parse(line);
      return hotel;
    });

it('copies all hotels, then what has changed, and survives a TRUNCATE', async () => {
  const first = await mirror();
  expect([first.code, JSON.parse(first.stdout)]).toMatchObject([
    0,
    { hotels: 1_200, requests: 2, removed: 0 },
  ]);
  expect(await copied()).toEqual(await exported());

  await service.sql`delete from hotels where id = 'h7'`;
  await service.sql`update hotels set id = 'renamed' where id = 'h8'`;
  await expect.poll(async () => (await mirror()).code === 0 && (await copied())).toEqual(await exported());
  const none = JSON.parse((await mirror()).stdout);
  expect(none).toMatchObject({ hotels: 1_199, requests: 1, changed: 0, removed: 0 });

  await service.sql`truncate hotels`;
  await service.sql`insert into hotels (id, name) values ('only', 'Only')`;
  await expect.poll(async () => (await mirror()).code === 0 && (await copied())).toEqual(await exported());
});

it('begins again where the file is another', async () => {
  await mirror();
  await writeFile(join(program.folder, 'copy.ndjson'), 'something else\n');
  expect((await mirror()).code).toBe(0);
  expect(await copied()).toEqual(await exported());
});

it('--follow keeps the file up to date until it is interrupted', async () => {
  const { child, outcome } = program.start(['mirror', service.url, 'copy.ndjson', '--follow'], '', {
    HOTEL_API_KEY: service.fullKey,
  });
  await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(1);
  await service.sql`insert into hotels (id, name) values ('followed', 'Followed')`;
  await expect.poll(async () => (await copied()) as unknown[]).toEqual(await exported());
  child.kill('SIGINT');
  expect((await outcome).code).toBe(0);
});

it('says what is wrong', async () => {
  const refused = await program.run(['mirror', service.url, 'copy.ndjson'], '', { HOTEL_API_KEY: 'wrong' });
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('401');
  expect((await program.run(['mirror', service.url, 'copy.ndjson'], '', {})).stderr).toContain(
    'HOTEL_API_KEY',
  );
});
