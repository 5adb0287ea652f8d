import { describe, expect, it } from 'vitest';
import { restoreFolder, saveFolder } from '../history/restores.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import type { HttpResponse } from '../support/client.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { insertHotels } from '../support/hotel.ts';
import { insertKey } from '../support/key.ts';
import { readLogState } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { ownReplica } from '../support/own-replica.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { FaultProxy } from '../support/proxy.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis');

const HOTELS = Array.from({ length: 150 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}`, name: 'kept' }));
/** Time after the return of the database from which nothing older is served. */
const RECOVERED_MS = 5_000;
const ROUNDS = 3;

const changedHistory = (service: Service) =>
  service.logs().filter((line) => line.includes('database history changed')).length;

describe('a replica that lacks the last changes is promoted', () => {
  it('and every instance serves its content and later changes without an operator', async () => {
    const primary = await ownPostgres(100);
    const sql = postgresClient(primary.ownerUrl, { max: 2 });
    await insertHotels(sql, HOTELS);
    const replica = await ownReplica(primary.ownerUrl);
    const replicaUrl = Object.assign(new URL(primary.ownerUrl), { port: String(replica.port) }).href;
    const promoted = postgresClient(replicaUrl, { max: 2 });
    const path = await FaultProxy.before(primary.url);
    const database = databaseAt(path.url, primary.ownerUrl, sql);
    const redisDatabase = await freshRedis();
    const first = await startService({ workers: 2, database, redisDatabase });
    // without a local cache, every response uses Redis
    const second = await startService({ database, redisDatabase, env: { L1_MAX_BYTES: '0' } });
    const allWorkers = await AllWorkers.of(first, second);
    const caughtUp = async () => {
      const [at] = await sql<{ lsn: string }[]>`select pg_current_wal_lsn()::text as lsn`;
      const [is] = await promoted`select pg_last_wal_replay_lsn() >= ${at!.lsn}::pg_lsn as so`;
      return is!.so;
    };
    await expect.poll(caughtUp).toBe(true);
    await promoted`alter system set primary_conninfo = ''`;
    await promoted`select pg_reload_conf()`;
    await expect.poll(async () => (await sql`select from pg_stat_replication`).length).toBe(0);

    await sql`update hotels set name = 'lost' where id in (select 'h' || i from generate_series(0, 99) as i)`;
    await sql`delete from hotels where id in (select 'h' || i from generate_series(100, 119) as i)`;
    await insertHotels(
      sql,
      Array.from({ length: 20 }, (_, i) => ({ id: `new${i}`, name: 'lost' })),
    );
    const lostKey = await insertKey(sql, []);
    const lost = async (timeoutMs: number, isLost: boolean) => {
      const [old, gone, made] = isLost
        ? [named('lost'), status(404), named('lost')]
        : [named('kept'), named('kept'), status(404)];
      for (let i = 0; i < 100; i++) await allWorkers.until(`/hotels/h${i}`, old, timeoutMs);
      for (let i = 100; i < 120; i++) await allWorkers.until(`/hotels/h${i}`, gone, timeoutMs);
      for (let i = 0; i < 20; i++) await allWorkers.until(`/hotels/new${i}`, made, timeoutMs);
    };
    await lost(1_000, true);
    await allWorkers.until('/hotels/h130', status(200), 1_000, lostKey);

    await primary.server.kill();
    await promoted`select pg_promote()`;
    path.moveTo(replica.port);
    await lost(RECOVERED_MS, false);
    await allWorkers.until('/hotels/h130', status(401), RECOVERED_MS, lostKey);
    expect([first, second].map(changedHistory)).toEqual([1, 1]);
    expect(await first.metric('hotel_api_history_changes_total')).toBe(1);
    for (let round = 0; round < ROUNDS; round++) {
      await promoted`update hotels set name = ${`round ${round}`} where id = 'h7'`;
      await allWorkers.until('/hotels/h7', named(`round ${round}`));
    }
  });
});

describe('a snapshot of the server from before the present history is restored', () => {
  it('and its history, which every instance has left, is not continued', async () => {
    const { server, url, ownerUrl } = await ownPostgres(100);
    const sql = postgresClient(ownerUrl);
    await insertHotels(sql, HOTELS);
    const path = await FaultProxy.before(url);
    const database = databaseAt(path.url, ownerUrl, sql);
    // without a local cache, every response uses Redis
    const env = { L1_MAX_BYTES: '0', DATABASE_TIMEOUT_MS: '500' };
    const service = await startService({ database, redisDatabase: await freshRedis(), env });
    const allWorkers = await AllWorkers.of(service);
    const all = async (isSo: (response: HttpResponse) => boolean, key?: string) => {
      for (const { id } of HOTELS.slice(0, 20)) await allWorkers.until(`/hotels/${id}`, isSo, 5_000, key);
    };
    await all(named('kept'));

    const folder = await saveFolder(server, sql);
    await sql`update hotels set name = 'lost'`;
    const lostKey = await insertKey(sql, []);
    await all(named('lost'), lostKey);
    // as a dump does that is restored in place
    await sql.begin(async (restored) => {
      await restored`lock table hotel_api_sequencer in exclusive mode`;
      await restored`select hotel_api_new_history()`;
    });
    await expect.poll(() => changedHistory(service)).toBe(1);
    await sql`update hotels set name = 'present'`;
    await all(named('present'));

    await path.reject();
    await server.kill();
    await restoreFolder(folder);
    await server.restart();
    // no worker can query: only polls tell the instance about the database
    await path.heal();
    path.blackout('hotel-api serve');
    await expect.poll(() => changedHistory(service)).toBe(2);
    const statuses = [];
    for (const { id } of HOTELS.slice(0, 20))
      for (const { status, text } of await allWorkers.get(`/hotels/${id}`))
        statuses.push(status === 200 ? text : status);
    expect(new Set(statuses)).toEqual(new Set([503]));
    for (const { status } of await allWorkers.get('/hotels/h0', lostKey)) expect(status).toBe(503);

    await path.heal();
    await all(named('kept'));
    await allWorkers.until('/hotels/h0', status(401), RECOVERED_MS, lostKey);
    await sql`update hotels set name = 'later'`;
    await all(named('later'));
    expect(changedHistory(service)).toBe(2);
  });
});

describe('a copy of the database on the same Redis', () => {
  it('shares nothing with it', async () => {
    const redisDatabase = await freshRedis();
    const production = await freshDatabase();
    const env = { L1_MAX_BYTES: '0' };
    const around = { database: production, redisDatabase, env };
    let service = await startService({ ...around, hotels: HOTELS });
    for (const { id } of HOTELS) expect((await service.get(`/hotels/${id}`)).json().name).toBe('kept');
    await service.stop();
    await production.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`;
    await production.sql.end();
    const copy = await freshDatabase(production.name);
    await copy.sql`update hotels set name = 'staging'`;
    const sql = postgresClient(production.ownerUrl);

    service = await startService({ ...around, database: { ...production, sql } });
    const staging = await startService({ ...around, database: copy });
    for (let round = 0; round < 2; round++) {
      for (const { id } of HOTELS) {
        expect((await staging.get(`/hotels/${id}`)).json().name).toBe('staging');
        expect((await service.get(`/hotels/${id}`)).json().name).toBe('kept');
      }
    }
    const secrets = await Promise.all(
      [sql, copy.sql].map((each) => each`select secret from hotel_api_secrets`),
    );
    expect(secrets[0]).not.toEqual(secrets[1]);
  });
});

describe('after a crash of a server with synchronous_commit = off, every served state is in the table', () => {
  it('whether it had a position or was only read', async () => {
    const { server, url, ownerUrl } = await ownPostgres(50);
    const sql = postgresClient(ownerUrl, { backoff: () => 0.1 });
    // the server delays writes as far as it may
    await sql`alter system set wal_writer_delay = '10s'`;
    await sql`select pg_reload_conf()`;
    expect(await sql`show synchronous_commit`).toEqual([{ synchronous_commit: 'off' }]);
    const database = databaseAt(url, ownerUrl, sql);
    const service = await startService({ database, redis: false, hotels: [{ id: 'h', name: 'v' }] });
    for (let round = 0; round < ROUNDS; round++) {
      const name = `v${round}`;
      await sql`update hotels set name = ${name} where id = 'h'`;
      await expect.poll(async () => (await service.get('/hotels/h')).json().name).toBe(name);
      const { last, history } = await readLogState(sql);
      await server.kill();
      await server.restart();
      await expect
        .poll(() => sql`select name from hotels where id = 'h'`.catch(() => {}))
        .toEqual([{ name }]);
      const state = await readLogState(sql);
      expect(state.history).toBe(history);
      expect(state.last).toBeGreaterThanOrEqual(last);
      await expect.poll(async () => (await service.get('/hotels/h')).json().name).toBe(name);
    }
    // nothing was lost, so no cache was dropped
    expect(changedHistory(service)).toBe(0);
  });
});
