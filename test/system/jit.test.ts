import type { Sql } from 'postgres';
import { beforeAll, expect, it } from 'vitest';
import { needs } from '../support/needs.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { serverPrograms } from '../support/programs.ts';
import { insertHotels } from '../support/rows.ts';
import { startService } from '../support/service.ts';

const programs = await serverPrograms();
await needs('pg_dump');

const HOTELS = Array.from({ length: 3_000 }, (_, i) => ({ id: `h${i}` }));

let server: { url: string; ownerUrl: string };
let sql: Sql;

beforeAll(async () => {
  // as Debian, PGDG and managed servers have it; autovacuum would hide missing statistics after a while
  server = await ownPostgres(100, programs, {
    ...{ jit: 'on', autovacuum: 'off', shared_preload_libraries: 'pg_stat_statements' },
  });
  sql = postgresClient(server.ownerUrl);
  expect(await sql`select pg_jit_available() as available`).toEqual([{ available: true }]);
  await sql`update pg_class set reltuples = -1, relpages = 0 where relnamespace = 'public'::regnamespace`;
  await insertHotels(sql, HOTELS);
  await sql`create extension pg_stat_statements`;
});

it('on a server that compiles queries, whose tables have no statistics, no query of the service is compiled', async () => {
  const service = await startService({
    database: databaseAt(server.url, server.ownerUrl, sql),
    redis: false,
  });
  for (const path of ['/hotels', '/hotels/h1', '/changes?limit=10', '/changes?limit=1000'])
    await service.get(path);
  const { status, text } = await service.get('/changes?limit=10');
  expect(status, text).toBe(200);
  expect(JSON.parse(text).changes).toHaveLength(10);
  const [row] = await sql<{ queries: number; compiled: number }[]>`
    select count(*)::integer as queries, count(*) filter (where jit_functions > 0)::integer as compiled
    from pg_stat_statements where userid in ('service'::regrole, 'hotel_api_serve'::regrole)`;
  expect(row!.queries).toBeGreaterThan(5);
  expect(row!.compiled).toBe(0);
  await service.stop();
});
