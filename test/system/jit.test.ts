import type { Sql } from 'postgres';
import { beforeAll, describe, expect, it } from 'vitest';
import { startProgram } from '../cli/program.ts';
import { needs } from '../support/needs.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { startPgBouncer } from '../support/pgbouncer.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { serverPrograms } from '../support/programs.ts';
import { insertHotels } from '../support/rows.ts';
import { startService } from '../support/service.ts';

const programs = await serverPrograms();
await needs('pg_dump', 'pgbouncer');

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

describe('on a server that compiles queries, whose tables have no statistics', () => {
  it('no query of the service is compiled, that of a page of changes least of all', async () => {
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

  it('a login whose queries through a pooler would be compiled is rejected, with its cure', async () => {
    const migrating = startProgram(['migrate', '--serving-login', 'service'], {
      DATABASE_URL: server.ownerUrl,
    });
    expect((await migrating.outcome).stderr).toBe('');
    await sql`alter role service set jit = on`;
    const { url } = await startPgBouncer(server.url, 1);
    const service = await startService({
      database: databaseAt(server.url, server.ownerUrl, sql),
      redis: false,
      awaitReady: false,
      env: { DATABASE_URL: url },
    });
    await expect
      .poll(() => service.logs().join('\n'))
      .toMatch(/lacks jit\. Run: alter role service set jit = 'off'/);
    await sql`alter role service set jit = off`;
    // connections that the pooler holds keep the setting
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'service'`;
    await expect.poll(async () => (await service.admin('/readyz')).status).toBe(200);
    await service.stop();
  });
});
