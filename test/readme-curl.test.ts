import { beforeAll, expect, it } from 'vitest';
import { seed } from '../src/cli/seed.ts';
import { read } from './documents/files.ts';
import { Operator } from './procedures/operator.ts';
import { freshDatabase } from './support/database.ts';
import { needs } from './support/needs.ts';
import { type Service, startService } from './support/service.ts';

await needs('bash', 'curl');

/** As many as the demo has. */
const HOTELS = 20_000;
const section = read('README.md').split('\n## Quick start\n')[1]!.split('\n## ')[0]!;
const lines = section.match(/^curl .*$/gm)!;

let service: Service;

beforeAll(async () => {
  const database = await freshDatabase();
  await seed(database.sql, HOTELS, { seed: 1, today: new Date().toISOString().slice(0, 10) });
  service = await startService({ database, redis: false });
});

it('the README requests each of the six operations', () => {
  expect(lines).toHaveLength(6);
  for (const line of lines) expect(line).toContain('"$HOTEL_API_URL/hotels');
});

it.each(lines)('this line of it finds hotels: %s', async (line) => {
  const shell = await Operator.set({ HOTEL_API_URL: service.url, HOTEL_API_KEY: service.fullKey });
  const hotels = [JSON.parse(await shell.types(`${line} -sSf`))].flat();
  expect(hotels.length).toBeGreaterThan(0);
  for (const hotel of hotels) expect(hotel).toMatchObject({ id: expect.stringMatching(/^htl_/) });
});
