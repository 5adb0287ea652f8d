import type { Sql } from 'postgres';
import { beforeAll, describe, expect, it } from 'vitest';
import { Postgres } from '../../src/postgres/client.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { Replica } from '../../src/postgres/replica.ts';
import { addressOf } from '../support/address.ts';
import { AllWorkers, named } from '../support/all-workers.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { insertHotels } from '../support/hotel.ts';
import { ownReplica } from '../support/own-replica.ts';
import { databaseAt, type OwnServer, ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { type Service, startService } from '../support/service.ts';

const HOTELS = 1_000;
const LOADERS = 8;
const WORKERS = 2;

let ownerUrl: string;
let replica: OwnServer;
let service: Service;
let allWorkers: AllWorkers;
/** the replica, as the superuser */
let behind: Sql;

beforeAll(async () => {
  const primary = await ownPostgres(100);
  const { url } = primary;
  ownerUrl = primary.ownerUrl;
  const sql = postgresClient(ownerUrl, { max: 4 });
  // as in production, where a replica lags less than 0.2 s
  await sql`alter database postgres set synchronous_commit = on`;
  await insertHotels(
    sql,
    Array.from({ length: HOTELS }, (_, i) => ({
      id: idOf(i),
      channel_id: `CH-${i}`,
      registry_id: 7_000 + i,
    })),
  );
  replica = await ownReplica(ownerUrl);
  behind = postgresClient(replicaUrl(ownerUrl));
  service = await startService({
    database: databaseAt(url, ownerUrl, sql),
    redis: false,
    workers: WORKERS,
    // every read requires PostgreSQL
    env: { L1_MAX_BYTES: '0', DATABASE_REPLICA_URLS: replicaUrl(url) },
  });
  allWorkers = await AllWorkers.of(service);
});

const replicaUrl = (url: string) => Object.assign(new URL(url), { port: String(replica.port) }).href;
const idOf = (i: number) => `h${String(i).padStart(4, '0')}`;

async function reads(): Promise<Record<string, number>> {
  const counted = await service.samples('hotel_api_replica_reads_total');
  return Object.fromEntries(counted.map(({ labels, value }) => [labels.outcome, value]));
}

async function lagS(): Promise<number> {
  const values = await service.samples('hotel_api_replica_lag_seconds');
  return Math.max(...values.map(({ value }) => value));
}

/** Returns the outcomes that were counted between two readings. */
const countedBetween = (before: Record<string, number>, after: Record<string, number>) =>
  Object.keys(after).filter((outcome) => after[outcome] !== before[outcome]);

/** Waits until only the replica answers every worker, several times, because counters may be late. */
async function replicaIsRead(): Promise<void> {
  let times = 0;
  await expect
    .poll(async () => {
      const before = await reads();
      await allWorkers.get('/hotels/h0500');
      const after = await reads();
      times = countedBetween(before, after).join() === 'answered' ? times + 1 : 0;
      return times;
    })
    .toBe(3);
}

const pause = () => behind`select pg_wal_replay_pause()`;
const resume = () => behind`select pg_wal_replay_resume()`;

describe('a replica that keeps up', () => {
  it('serves all six operations', async () => {
    await replicaIsRead();
    const idsOf = (json: { id: string } | { id: string }[]) => [json].flat().map(({ id }) => id);
    const received: string[][][] = [];
    /** Sends each operation; returns which outcomes of reads were counted, and whether one for each was answered. */
    const outcomes = async () => {
      const before = await reads();
      // one after the other, because concurrent reads are joined
      const responses = [
        await service.get('/hotels?limit=2&offset=7'),
        await service.get('/hotels/h0007'),
        await service.get('/hotels/channel/CH-7'),
        await service.get('/hotels/registry/7007'),
        await service.post('/hotels/channel/batch', { channel_ids: ['CH-8', 'CH-7'] }),
        await service.post('/hotels/registry/batch', { registry_ids: [7_008, 7_007] }),
      ];
      received.push(responses.map((response) => idsOf(response.json())));
      const after = await reads();
      return {
        counted: countedBetween(before, after),
        eachAnswered: after.answered! >= before.answered! + 6,
      };
    };
    // a held-up primary process does not follow the log, and the replica is left alone meanwhile
    await expect.poll(outcomes).toEqual({ counted: ['answered'], eachAnswered: true });
    for (const ids of received)
      expect(ids).toEqual([
        ['h0007', 'h0008'],
        ['h0007'],
        ['h0007'],
        ['h0007'],
        ['h0008', 'h0007'],
        ['h0008', 'h0007'],
      ]);
  });

  it('serves absences', async () => {
    await replicaIsRead();
    const absent = await allWorkers.get('/hotels/nowhere');
    expect(new Set(absent.map(({ status }) => status))).toEqual(new Set([404]));
    const beyond = await allWorkers.get(`/hotels?offset=${HOTELS}`);
    expect(new Set(beyond.map(({ text }) => text))).toEqual(new Set(['[]']));
  });

  it('serves deep pages of the list, with counts from the replica', async () => {
    await replicaIsRead();
    await expect
      .poll(async () => {
        const pages = await allWorkers.get('/hotels?limit=1&offset=900');
        return [...new Set(pages.map((page) => page.json()[0]?.id))];
      })
      .toEqual(['h0900']);
  });

  it('is read while hotels change continuously', async () => {
    const before = await reads();
    const answered = async () => (await reads()).answered! - before.answered!;
    for (let i = 0; (await answered()) <= 10; i++) {
      await service.sql`update hotels set name = ${`Change ${i}`} where id = 'h0002'`;
      await allWorkers.until('/hotels/h0002', named(`Change ${i}`));
      await allWorkers.get('/hotels/h0003');
    }
  });

  it('never serves a state older than applied, however small its lag', async () => {
    const history = 'of the race';
    // a log of its own, because the service adds to that of the hotels
    await service.sql`create database race`;
    const urlOf = (url: string) => addressOf(url, { database: 'race' });
    const writer = postgresClient(urlOf(ownerUrl));
    await writer.unsafe(`
      create type hotel_api_state as (history text);
      create table hotel_api_log (position bigint primary key, state hotel_api_state);
      create table race (n integer not null);
      insert into race values (0);
      -- which a probe reads
      create table hotels ();
      grant select on hotel_api_log, race, hotels to hotel_api_serve`);
    const sequence = (n: number) =>
      writer`insert into hotel_api_log values (${n}, row(${history})::hotel_api_state)`;
    await sequence(0);
    const pool = new Postgres(
      () =>
        openDatabase(urlOf(replicaUrl(ownerUrl)), 4, {
          kind: 'serve',
          statementTimeoutMs: 5_000,
          pooled: false,
        }),
      { connections: 4, queueLimit: 100, timeoutMs: 5_000 },
      () => {},
    );
    closeAtEnd('reads of the replica', () => pool.close());
    const readerAt = (position: () => number) => new Replica(pool, () => ({ history, position: position() }));
    const read = (reader: Replica) => reader.read<{ n: number }>('select n from race', []);
    // the tables must be replicated before they are read
    const first = readerAt(() => 0);
    await expect
      .poll(async () => (await read(first).catch(() => undefined))?.rows)
      .toEqual([expect.objectContaining({ n: 0 })]);
    let applied = 0;
    let over = false;
    const found = { answered: 0, behind: 0, older: 0, dishonest: 0 };
    const reading = async (ago: number) => {
      let position = 0;
      const reader = readerAt(() => position);
      while (!over) {
        position = Math.max(0, applied - ago);
        const result = await read(reader);
        if (!result) found.behind++;
        else if (result.rows[0]!.n < position) found.older++;
        else if (result.rows[0]!.n < result.label) found.dishonest++;
        else found.answered++;
      }
    };
    // some request rows that are just being replicated, some older ones
    const readers = [0, 1, 8, 100].map(reading);
    const both = () => found.answered > 20 && found.behind > 20;
    for (let n = 1; n <= 500 || !both(); n++) {
      await writer`update race set n = ${n}`;
      // requested from now on, and present when the next statement is replicated
      applied = n;
      await sequence(n);
    }
    over = true;
    await Promise.all(readers);
    expect(found).toMatchObject({ older: 0, dishonest: 0 });
  });
});

describe('a replica that lags', () => {
  it('is not read for changed, inserted, deleted or other hotels', async () => {
    await replicaIsRead();
    await pause();
    await service.sql`update hotels set name = 'New' where id = 'h0010'`;
    await insertHotels(service.sql, [{ id: 'a-new-one', name: 'Inserted' }]);
    await service.sql`delete from hotels where id = 'h0011'`;
    await allWorkers.until('/hotels/h0010', named('New'));
    await allWorkers.until('/hotels?limit=1', ({ text }) => text.includes('a-new-one'));
    await allWorkers.until('/hotels/h0011', ({ status }) => status === 404);
    const before = await reads();
    const [held] = await behind`select name from hotels where id = 'h0010'`;
    expect(held!.name).not.toBe('New');
    const lag = await lagS();
    for (let round = 0; round < 10; round++) {
      for (const response of await allWorkers.get('/hotels/h0010')) expect(response.json().name).toBe('New');
      for (const response of await allWorkers.get('/hotels?limit=1'))
        expect(response.text).toContain('a-new-one');
      for (const response of await allWorkers.get('/hotels/h0011')) expect(response.status).toBe(404);
      for (const response of await allWorkers.get('/hotels/h0012')) expect(response.json().id).toBe('h0012');
    }
    await expect.poll(lagS).toBeGreaterThan(lag);
    const after = await reads();
    expect(after.answered).toBe(before.answered);
    // it is not probed: few requests pay for the detection
    expect(after.behind! - before.behind!).toBeLessThan(after.left_alone! - before.left_alone!);
  });

  it('is read again once it has caught up', async () => {
    await resume();
    await replicaIsRead();
    await expect.poll(lagS).toBe(0);
    for (const response of await allWorkers.get('/hotels/h0010')) expect(response.json().name).toBe('New');
  });
});

describe('a replica that becomes unavailable under load', () => {
  it.each([
    ['killed', () => replica.kill(), () => replica.restart()],
    ['frozen', () => replica.freeze(), () => replica.thaw()],
  ])('%s, no request fails, and the replica is read again once it is available', async (_, end, begin) => {
    await replicaIsRead();
    const { failed = 0 } = await reads();
    let over = false;
    let answered = 0;
    const faults: string[] = [];
    const load = async (first: number) => {
      for (let i = first; !over; i = (i + LOADERS) % HOTELS) {
        const { status, text } = await service.get(`/hotels/channel/CH-${i === 11 ? 12 : i}`);
        if (status !== 200) faults.push(`${status} ${text}`);
        answered++;
      }
    };
    const loads = Array.from({ length: LOADERS }, (_, i) => load(i));
    const more = (count: number) => {
      const from = answered;
      return expect.poll(() => answered).toBeGreaterThan(from + count);
    };
    await more(200);
    await end();
    await expect.poll(async () => (await reads()).failed! - failed).toBeGreaterThan(0);
    await more(500);
    await begin();
    await replicaIsRead();
    over = true;
    await Promise.all(loads);
    expect(faults).toEqual([]);
  });
});

describe('a replica that no longer follows', () => {
  it('is never read again after its promotion', async () => {
    await replicaIsRead();
    await behind`select pg_promote()`;
    await behind`update hotels set name = 'Written elsewhere' where id = 'h0020'`;
    await service.sql`update hotels set name = 'True' where id = 'h0020'`;
    await allWorkers.until('/hotels/h0020', named('True'));
    for (let round = 0; round < 5; round++)
      for (const response of await allWorkers.get('/hotels/h0020')) expect(response.json().name).toBe('True');
  });
});
