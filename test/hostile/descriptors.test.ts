import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import { percentile } from '../../bench/figures.ts';
import { Client } from '../support/client.ts';
import { addResult, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { workersOf } from './memory.ts';

const LIMIT = 512;
const WORKERS = 2;
const HOTELS = 200;
/** More connections than two workers with this limit can hold, however the system distributes them. */
const IDLE = shortOrLong(1_500, 4_000);
const ESTABLISHED = 16;

/** Idle connections; those that the service closes are opened again, as a hostile client would do. */
class IdleConnections {
  readonly #sockets = new Set<Socket>();
  readonly #port: number;
  #isOpening = true;
  closed = 0;

  constructor(port: number, count: number) {
    this.#port = port;
    for (let i = 0; i < count; i++) this.#open();
  }

  #open(): void {
    const socket = connect(this.#port, '127.0.0.1');
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#sockets.delete(socket);
      this.closed++;
      // delayed by a fifth of a second, so that the test does not saturate its own processor
      if (this.#isOpening) setTimeout(() => this.#isOpening && this.#open(), 200).unref();
    });
  }

  end(): void {
    this.#isOpening = false;
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** Sends requests over established keep-alive connections; fails if one is rejected. */
function establish({ port, fullKey }: Service): { send(path: string): Promise<number>[]; end(): void } {
  const clients = Array.from(
    { length: ESTABLISHED },
    () => new Client(port, { full: fullKey, narrow: '' }, 1),
  );
  return {
    send: (path) => clients.map(async (client) => (await client.request(path, {})).status),
    end: () => {
      for (const client of clients) client.close();
    },
  };
}

it('more idle connections than descriptors end no worker, and established connections are served', async (context) => {
  const service = await startService({
    workers: WORKERS,
    hotels: [...Array.from({ length: HOTELS }, (_, i) => ({ id: `h${i}` })), { id: 'never-asked-before' }],
    command: ['sh', '-c', `ulimit -n ${LIMIT}; exec ${process.execPath} src/main.ts serve`],
  });
  const pids = await workersOf(service, WORKERS);
  expect(service.logs().some((line) => line.includes('raise ulimit -n'))).toBe(true);
  const max = await service.metric('hotel_api_connections_max');
  const established = establish(service);
  onTestFinished(() => established.end());
  expect(new Set(await Promise.all(established.send('/hotels/h0')))).toEqual(new Set([200]));

  const idle = new IdleConnections(service.port, IDLE);
  onTestFinished(() => idle.end());
  await expect.poll(() => idle.closed).toBeGreaterThan(IDLE / 4);
  const times: number[] = [];
  const answers = { answered: 0, failed: 0 };
  const untilMs = performance.now() + shortOrLong(3_000, 20_000);
  for (let i = 0; performance.now() < untilMs; i++) {
    const beganMs = performance.now();
    for (const status of await Promise.allSettled(established.send(`/hotels/h${i % HOTELS}`))) {
      if (status.status === 'fulfilled' && status.value === 200) answers.answered++;
      else answers.failed++;
    }
    times.push(performance.now() - beganMs);
    await sleep(20);
  }
  const rejected = await service.metric('hotel_api_connections_rejected_total');
  const open = await service.metric('hotel_api_connections');
  const descriptors = Math.max(...pids.map((pid) => readdirSync(`/proc/${pid}/fd`).length));
  const ended = await service.metric('hotel_api_worker_restarts_total');
  addResult(
    context,
    'hostile clients',
    `${IDLE} idle connections, again and again, at ${LIMIT} descriptors`,
    {
      "others' failures": answers.failed,
      "others' p99 ms": percentile(times, 0.99).toFixed(1),
      'workers exited': ended,
      'connections rejected': rejected,
      'most descriptors': descriptors,
    },
  );
  expect(answers.failed).toBe(0);
  expect(answers.answered).toBeGreaterThan(0);
  expect(rejected).toBeGreaterThan(0);
  expect(open).toBeLessThanOrEqual(max);
  expect(descriptors).toBeLessThan(LIMIT);
  expect(await service.metric('process_resident_memory_bytes')).toBeGreaterThan(0);
  expect(ended).toBe(0);
  expect((await service.workerPids()).sort()).toEqual(pids);

  // the reserved descriptors suffice to reopen a whole pool
  await service.sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`;
  await vi.waitUntil(
    async () =>
      (await Promise.all(established.send('/hotels/never-asked-before'))).every((status) => status === 200),
    { timeout: 100_000 },
  );

  idle.end();
  await expect.poll(() => service.metric('hotel_api_connections')).toBeLessThanOrEqual(ESTABLISHED + 1);
  expect((await service.get('/hotels/h1', { headers: { connection: 'close' } })).status).toBe(200);
});
