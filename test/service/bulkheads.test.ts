import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { type Lane, Postgres } from '../../src/postgres/client.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { insertKey } from '../support/key.ts';
import { FaultProxy } from '../support/proxy.ts';
import { startService } from '../support/service.ts';

const CONNECTIONS = 4;
const TIMEOUT_MS = 1_000;
/** Longer than the deadline of a query. */
const SLOW_S = 4;

let database: FreshDatabase;

beforeAll(async () => {
  database = await freshDatabase();
});

function open(url: string) {
  const openings: boolean[] = [];
  const connect = () =>
    openDatabase(url, CONNECTIONS, { kind: 'serve', statementTimeoutMs: 60_000, pooled: false });
  const limits = { connections: CONNECTIONS, queueLimit: 1_000, timeoutMs: TIMEOUT_MS };
  const postgres = new Postgres(connect, limits, (isOpen) => openings.push(isOpen));
  closeAtEnd('PostgreSQL', () => postgres.close());
  const slow = (lane: Lane) => postgres.rows(`select pg_sleep(${SLOW_S})`, [], '', lane);
  const quick = (lane: Lane) => postgres.rows<{ one: number }>('select 1 as one', [], '', lane);
  // a ping needs no new connection
  const connected = () => postgres.connected(30_000);
  return { openings, slow, quick, connected };
}

describe.each<[lane: Lane, others: Lane[]]>([
  ['list', ['load', 'changes', 'background']],
  ['changes', ['load', 'list', 'background']],
  ['background', ['load', 'list', 'changes']],
])('while queries of the class %s are too slow', (lane, others) => {
  it('the others are answered, and the circuit breaker stays closed', async () => {
    const { openings, slow, quick } = open(database.url);
    await quick('load');
    const failures = Array.from({ length: 8 }, () =>
      slow(lane).then(
        () => undefined,
        (error: unknown) => error,
      ),
    );
    for (let i = 0; i < 20; i++) for (const other of others) expect(await quick(other)).toEqual([{ one: 1 }]);
    const late = expect.objectContaining({ name: 'Unavailable', isOutage: false });
    expect(await Promise.all(failures)).toEqual(failures.map(() => late));
    for (const other of others) expect(await quick(other)).toEqual([{ one: 1 }]);
    expect(openings).toEqual([]);
  });
});

describe('a query that is too slow', () => {
  it('does not open the circuit breaker while the server answers a ping, even without other queries', async () => {
    const { openings, slow, quick, connected } = open(database.url);
    await connected();
    for (let i = 0; i < 3; i++) await expect(slow('load')).rejects.toMatchObject({ isOutage: false });
    expect(openings).toEqual([]);
    expect(await quick('load')).toEqual([{ one: 1 }]);
  });

  it('opens the circuit breaker if the server does not respond at all', async () => {
    const proxy = await FaultProxy.before(database.url);
    const { openings, quick } = open(proxy.url);
    await quick('load');
    proxy.blackout();
    const outages = Array.from({ length: 2 * CONNECTIONS }, () =>
      quick('load').catch((error) => error.isOutage),
    );
    expect(await Promise.all(outages)).toEqual(outages.map(() => true));
    expect(openings).toEqual([true]);
    proxy.heal();
    await expect.poll(() => openings).toEqual([true, false]);
  });
});

describe('while the queue of GET /changes is full', () => {
  async function fullQueue() {
    const service = await startService({
      hotels: [{ id: 'h' }],
      env: {
        WORKERS: '1',
        DATABASE_POOL_SIZE: '4',
        DATABASE_QUEUE_LIMIT: '2',
        DATABASE_TIMEOUT_MS: '60000',
      },
    });
    const get = (limit: number, options = {}) => service.get(`/changes?limit=${limit}&wait=30`, options);
    const locked = Promise.withResolvers<void>();
    const unlocked = Promise.withResolvers<void>();
    const locking = service.sql.begin(async (sql) => {
      await sql`lock table hotels in access exclusive mode`;
      locked.resolve();
      await unlocked.promise;
    });
    await locked.promise;
    const running = Array.from({ length: 8 }, (_, i) => get(i + 1));
    const inProgress = (expected: number) =>
      expect.poll(() => service.metric('hotel_api_requests_in_progress')).toBe(expected);
    await inProgress(running.length);
    expect((await service.get('/changes?limit=100')).status).toBe(503);
    const unlock = async () => {
      unlocked.resolve();
      await locking;
      return (await Promise.all(running)).map(({ status }) => status);
    };
    /** Sends requests that find the queue full. */
    const hold = async (options = {}) => {
      const held = Array.from({ length: 4 }, (_, i) => get(i + 11, options));
      await inProgress(running.length + held.length);
      return held;
    };
    return { service, hold, unlock, allServed: running.map(() => 200) };
  }

  it('clients that may wait are not rejected, and their keys are checked', async () => {
    const { service, hold, unlock, allServed } = await fullQueue();
    const revoked = await insertKey(service.sql, []);
    const held = await hold({ key: revoked });
    await service.sql`update api_keys set revoked_at = now() where key_sha256 = decode(${hashOf(revoked)}, 'hex')`;
    expect((await Promise.race(held)).status).toBe(401);
    expect(await unlock()).toEqual(allServed);
    await Promise.all(held);
  });

  it('clients that may wait are answered when the service stops', async () => {
    const { service, hold, unlock } = await fullQueue();
    const held = await hold();
    const stopped = service.stop();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual(held.map(() => 503));
    // one query runs, and two are in the queue
    expect((await unlock()).filter((status) => status === 200)).toHaveLength(3);
    await stopped;
  });
});
