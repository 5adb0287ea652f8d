import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { Postgres } from '../../src/postgres/client.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { freshDatabase } from '../support/database.ts';
import { FaultProxy } from '../support/proxy.ts';

const TIMEOUT_MS = 1_000;

let proxy: FaultProxy;
let postgres: Postgres;
/** for each call, probes included, whether it succeeded */
let calls: boolean[];
/** changes of the circuit breaker */
let breaker: boolean[];

/** A pool whose connections are open. */
beforeEach(async () => {
  proxy = await FaultProxy.before((await freshDatabase()).url);
  calls = [];
  breaker = [];
  postgres = new Postgres(
    () => openDatabase(proxy.url, 4, { kind: 'serve', statementTimeoutMs: 5_000, pooled: false }),
    { connections: 4, queueLimit: 100, timeoutMs: TIMEOUT_MS },
    (isOpen) => breaker.push(isOpen),
    (_, succeeded) => calls.push(succeeded),
  );
  onTestFinished(() => postgres.close());
  await postgres.connected(30_000);
  expect(await send()).toBe(1);
});

const send = async () => (await postgres.rows<{ one: number }>('select 1 as one', []))[0]!.one;

it('half-open connections are replaced after the first query that times out', async () => {
  proxy.halfOpen();
  await expect(send()).rejects.toThrow('PostgreSQL');
  await expect.poll(() => postgres.breakerOpen).toBe(false);
  expect(await send()).toBe(1);
  expect(calls).toEqual([true, false, true, true]);
});

it('half-open connections are replaced without any timeout once the log can be followed again', async () => {
  proxy.halfOpen();
  await sleep(1_100);
  postgres.reachable();
  expect(await send()).toBe(1);
  expect(calls).toEqual([true, true]);
});

it('connections with a recent response are kept then', async () => {
  const backend = async () =>
    (await postgres.rows<{ pid: number }>('select pg_backend_pid() as pid', []))[0]!.pid;
  const backends = async () => new Set(await Promise.all(Array.from({ length: 4 }, backend)));
  const before = await backends();
  postgres.reachable();
  expect(await backends()).toEqual(before);
});
