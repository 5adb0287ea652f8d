import { beforeAll, describe, expect, it } from 'vitest';
import { startProgram } from '../cli/program.ts';
import { AllWorkers, named } from '../support/all-workers.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import type { OwnServer } from '../support/own-server.ts';
import { startPgBouncer } from '../support/pgbouncer.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { type Service, startService } from '../support/service.ts';

await needs('pgbouncer');

const POOL_SIZE = 2;
const HOTELS = 100;

let database: FreshDatabase;
let pooler: { server: OwnServer; url: string };
let service: Service;
let allWorkers: AllWorkers;

beforeAll(async () => {
  database = await freshDatabase();
  pooler = await startPgBouncer(database.url, POOL_SIZE);
  service = await startService({
    database,
    redis: false,
    workers: 2,
    hotels: Array.from({ length: HOTELS }, (_, i) => ({
      id: `h${String(i).padStart(2, '0')}`,
      channel_id: `CH-${i}`,
      registry_id: 7_000 + i,
    })),
    // every read requires PostgreSQL
    env: { L1_MAX_BYTES: '0', DATABASE_URL: pooler.url, DATABASE_DIRECT_URL: database.url },
  });
  allWorkers = await AllWorkers.of(service);
});

describe('behind PgBouncer in transaction mode', () => {
  it('all six operations are served repeatedly over shared connections', async () => {
    const seventh = expect.objectContaining({ id: 'h07', channel_id: 'CH-7' });
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all([
        allWorkers.get('/hotels/h07'),
        allWorkers.get('/hotels/channel/CH-7'),
        allWorkers.get('/hotels/registry/7007'),
        allWorkers.get('/hotels?limit=1&offset=7'),
        allWorkers.post('/hotels/channel/batch', { channel_ids: ['CH-7'] }),
        allWorkers.post('/hotels/registry/batch', { registry_ids: [7_007] }),
      ]);
      for (const { status, text } of answers.flat()) {
        expect(status, text).toBe(200);
        expect([JSON.parse(text)].flat()).toEqual([seventh]);
      }
    }
  });

  it('the workers use no more connections to PostgreSQL than the pooler has', async () => {
    const held = async () => {
      const [row] = await database.sql<{ count: number }[]>`
        select count(*)::integer from pg_stat_activity
        where datname = current_database() and usename = 'service' and application_name = 'hotel-api serve'`;
      return row!.count;
    };
    await allWorkers.get('/hotels/h08');
    const count = await held();
    expect(count).toBeGreaterThan(0);
    expect(count).toBeLessThanOrEqual(POOL_SIZE);
  });

  it('a change is visible everywhere within a second', async () => {
    await database.sql`update hotels set name = 'Changed' where id = 'h09'`;
    await allWorkers.until('/hotels/h09', named('Changed'));
  });

  it('the login of the service cannot write', async () => {
    // like the service
    const sql = postgresClient(pooler.url, { prepare: false, fetch_types: false });
    await expect(sql`update hotels set name = 'Written'`).rejects.toThrow(/permission denied/);
    await expect(sql`delete from api_keys`).rejects.toThrow(/permission denied/);
  });

  it('the commands bypass it', async () => {
    const env = {
      // no server listens there
      DATABASE_URL: 'postgres://service@127.0.0.1:1/hotels',
      DATABASE_DIRECT_URL: database.ownerUrl,
    };
    const { stdout } = await startProgram(['migrate', '--json'], env).outcome;
    expect(JSON.parse(stdout).applied).toEqual([]);
  });

  it('is used again after it was killed and restarted', async () => {
    await pooler.server.kill();
    await expect.poll(async () => (await service.get('/hotels/h10')).status).toBe(503);
    await pooler.server.restart();
    await expect.poll(async () => (await service.get('/hotels/h10')).status).toBe(200);
  });
});

describe('behind a pooler is rejected', () => {
  const expectRejection = async (address: string, reason: RegExp) => {
    const { url } = await startPgBouncer(address, POOL_SIZE);
    const other = await startService({
      database,
      redis: false,
      awaitReady: false,
      env: { DATABASE_URL: url, DATABASE_DIRECT_URL: database.url },
    });
    await expect.poll(() => other.logs().join('\n')).toMatch(reason);
    expect((await other.admin('/readyz')).status).toBe(503);
    await other.stop();
  };

  it('a login that may write, because the service cannot drop its rights', () =>
    expectRejection(database.ownerUrl, /may write/));

  it('row-level security that hides the hotels from the change feed', async () => {
    const { sql } = database;
    const [login] = await sql`select quote_ident(${new URL(database.url).username}) as name`;
    await sql`alter table hotels enable row level security`;
    // the feed reads as the serving role, beside the pooler
    await sql.unsafe(`create policy own on hotels to ${login!.name} using (true)`);
    await expectRejection(database.url, /hides all rows of hotels from hotel_api_serve/);
    await sql`drop policy own on hotels`;
    await sql`alter table hotels disable row level security`;
  });

  it('a setting that changes results, because the service cannot change it', async () => {
    await database.sql.unsafe(`alter database ${database.name} set bytea_output = 'escape'`);
    await expectRejection(
      database.url,
      /has bytea_output = escape, .* Run: alter role service set bytea_output = 'hex'/,
    );
  });
});
