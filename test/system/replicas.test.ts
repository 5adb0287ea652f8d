import { beforeAll, describe, expect, it } from 'vitest';
import { AllWorkers } from '../support/all-workers.ts';
import { ownReplica } from '../support/own-replica.ts';
import { databaseAt, type OwnServer, ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { idsOf } from '../support/responses.ts';
import { insertHotels } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';

const HOTELS = 1_000;
const WORKERS = 2;

let ownerUrl: string;
let replica: OwnServer;
let service: Service;
let allWorkers: AllWorkers;

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

describe('a replica that keeps up', () => {
  it('serves all six operations', async () => {
    await replicaIsRead();
    /** Sends each operation; returns which outcomes of reads were counted, and whether one for each was answered. */
    const outcomes = async () => {
      const before = await reads();
      // one after the other, because concurrent reads are joined
      for (const path of ['?limit=1&offset=7', '/h0007', '/channel/CH-7', '/registry/7007'])
        expect((await service.get(`/hotels${path}`)).text).toContain('"id":"h0007"');
      for (const [kind, ids] of Object.entries({ channel: ['CH-8', 'CH-7'], registry: [7_008, 7_007] })) {
        const response = await service.post(`/hotels/${kind}/batch`, { [`${kind}_ids`]: ids });
        expect(idsOf(response)).toEqual(['h0008', 'h0007']);
      }
      expect((await service.get('/hotels/nowhere')).status).toBe(404);
      const after = await reads();
      return {
        counted: countedBetween(before, after),
        eachAnswered: after.answered! >= before.answered! + 7,
      };
    };
    // a held-up primary process does not follow the log, and the replica is left alone meanwhile
    await expect.poll(outcomes).toEqual({ counted: ['answered'], eachAnswered: true });
  });
});

describe('a replica that becomes unavailable under load', () => {
  it.each([
    ['killed', () => replica.kill(), () => replica.restart()],
    ['frozen', () => replica.freeze(), () => replica.thaw()],
  ])('%s, no request fails, and the replica is read again once it is available', async (_, end, begin) => {
    await replicaIsRead();
    const { failed = 0 } = await reads();
    const paths = Array.from({ length: 100 }, (_, i) => `/hotels/channel/CH-${100 + i}`);
    const requests = paths.map(async (path) => ({ path, answer: (await service.get(path)).text }));
    const load = new SteadyLoad(service, await Promise.all(requests));
    await load.answers(100);
    await end();
    await expect.poll(async () => (await reads()).failed! - failed).toBeGreaterThan(0);
    await load.answers(300);
    await begin();
    await replicaIsRead();
    expect(await load.stop()).toMatchObject(ALL_ANSWERED);
  });
});
