import { fork } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ToPrimary, ToWorker } from '../../src/cluster/messages.ts';
import { readConfig } from '../../src/config/config.ts';
import { groupOf, runningOf } from '../../src/demo/servers/processes.ts';
import { promisedMs } from '../support/form.ts';
import { closeAtEnd } from '../support/left-behind.ts';
import { ownPort } from '../support/own-port.ts';
import { type Service, startService } from '../support/service.ts';
import { ownTimeMs, within } from '../support/stall-detector.ts';

/** Polling without a promise of time. */
const POLL = { interval: 20, timeout: 60_000 };
const BODY = JSON.stringify({ channel_ids: ['C'] });

interface Line {
  time: string;
  msg: string;
  workerPid?: number;
  restartInMs?: number;
  signal?: string | null;
  reason?: string;
}

function linesOf(service: Service, msg: string): Line[] {
  return service
    .logs()
    .filter((line) => line.startsWith('{'))
    .map((line): Line => JSON.parse(line))
    .filter((line) => line.msg === msg);
}

/** The process that answered, by the start of the request id that it made. */
async function answerer(service: Service): Promise<string> {
  const raw = String(await service.raw('GET /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'));
  return /x-request-id: (.{12})/.exec(raw)![1]!;
}

/** A connection, and all that came on it. */
async function open(
  service: Service,
): Promise<{ socket: Socket; received: () => string; closed: Promise<void> }> {
  const socket = connect({ port: service.port, host: '127.0.0.1' });
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => {});
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await new Promise((resolve) => socket.once('connect', resolve));
  return { socket, received: () => text, closed };
}

/** A request that the service works on and cannot answer until `finish`: half of its body is missing. */
async function openSlow(service: Service) {
  const connection = await open(service);
  connection.socket.write(
    `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nX-API-Key: ${service.fullKey}\r\n` +
      `Content-Length: ${BODY.length}\r\n\r\n${BODY.slice(0, 5)}`,
  );
  await expect
    .poll(async () => /^hotel_api_requests_in_progress (\d+)/m.exec(await service.metrics())?.[1], POLL)
    .not.toBe('0');
  return { ...connection, finish: () => connection.socket.write(BODY.slice(5)) };
}

/** Resolves when the public port accepts no connections. */
async function untilClosed(service: Service): Promise<void> {
  const isOpen = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect({ port: service.port, host: '127.0.0.1' });
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
  await expect.poll(isOpen, POLL).toBe(false);
}

const HOTELS = [{ id: 'a', channel_id: 'C' }];

describe('the workers', () => {
  let service: Service;

  beforeAll(async () => {
    service = await startService({ redis: false, workers: 3, hotels: HOTELS });
  });

  it('all serve requests', async () => {
    await expect.poll(() => linesOf(service, 'worker started').length, POLL).toBe(3);
    const seen = new Set<string>();
    const ask = async () => seen.add(await answerer(service)).size;
    await expect.poll(ask, { ...POLL, interval: 0 }).toBe(3);
    expect(await service.workerPids()).toHaveLength(3);
  });

  it.each(['SIGKILL', 'SIGABRT'] as const)(
    'are replaced within a second when one exits by %s',
    async (signal) => {
      const before = await service.workerPids();
      const [victim] = before;
      process.kill(victim!, signal);
      const fresh = () =>
        linesOf(service, 'worker started').filter(({ workerPid }) => !before.includes(workerPid!));
      await within(
        1_000,
        async () => (await service.workerPids()).filter((pid) => !before.includes(pid)),
        (pids) => expect(pids).toHaveLength(1),
      );
      expect((await service.admin('/readyz')).status).toBe(200);
      // the others answer meanwhile, and the new one soon does
      expect((await service.get('/hotels/a')).status).toBe(200);
      await expect.poll(() => fresh().length, POLL).toBe(1);
      expect(linesOf(service, 'worker exited').at(-1)).toMatchObject({
        workerPid: victim,
        signal,
      });
      const pids = await service.workerPids();
      expect(pids).toHaveLength(3);
      expect(pids).not.toContain(victim);
    },
  );

  it('survive a freeze of the whole service; a single frozen worker is replaced within 4 s', async () => {
    await service.ready();
    // a report was heard of each
    await service.metrics();
    const before = await service.workerPids();
    const ended = () => linesOf(service, 'worker exited');
    const endedBefore = ended().length;
    process.kill(-service.pid, 'SIGSTOP');
    await sleep(3_000);
    process.kill(-service.pid, 'SIGCONT');
    expect((await service.get('/hotels/a')).status).toBe(200);
    // when this one is ended, whoever ends frozen workers has looked at the others too
    const [victim, ...others] = before;
    process.kill(victim!, 'SIGSTOP');
    await within(
      4_000,
      () => service.workerPids(),
      (pids) => expect(pids).not.toContain(victim),
    );
    await expect.poll(() => service.workerPids(), POLL).toHaveLength(3);
    expect(await service.workerPids()).toEqual(expect.arrayContaining(others));
    await expect.poll(() => ended().length, POLL).toBe(endedBefore + 1);
    expect(ended().at(-1)).toMatchObject({ workerPid: victim, signal: 'SIGKILL' });
  });

  it('may exit while the primary sends them a message', async () => {
    await service.ready();
    // on a connection that is open already: the primary reads the question before it reads of the deaths
    await service.metrics();
    process.kill(service.pid, 'SIGSTOP');
    const scraping = service.metrics();
    await sleep(50);
    for (const pid of await service.workerPids()) process.kill(pid, 'SIGKILL');
    process.kill(service.pid, 'SIGCONT');
    expect(await scraping).toContain('hotel_api_');
    await expect.poll(() => service.workerPids(), POLL).toHaveLength(3);
    await service.ready();
    expect((await service.get('/hotels/a')).status).toBe(200);
  });
});

describe('a worker whose event loop is busy for longer than the time limit of a frozen one', () => {
  it('is not replaced', async () => {
    const hook = fileURLToPath(new URL('../support/spin-hook.ts', import.meta.url));
    const env = { NODE_OPTIONS: `--import=${hook}` };
    const service = await startService({ workers: 2, redis: false, hotels: HOTELS, env });
    const before = (await service.workerPids()).sort();
    process.kill(before[0]!, 'SIGUSR2');
    await expect.poll(() => linesOf(service, 'spun').length, { ...POLL, timeout: 60_000 }).toBe(1);
    // it has had the time to say something, and the primary to read it
    await service.metrics();
    expect((await service.workerPids()).sort()).toEqual(before);
    expect(linesOf(service, 'worker exited')).toEqual([]);
  }, 90_000);
});

describe('a worker that cannot start', () => {
  it('is restarted after growing pauses, with the reason in the log, and starts when it can', async () => {
    const service = await startService({ redis: false, hotels: HOTELS });
    process.kill((await service.workerPids())[0]!, 'SIGKILL');
    const thief = createServer();
    const taken = () =>
      new Promise<boolean>((resolve) => {
        thief.once('error', () => resolve(false));
        thief.listen({ port: service.port, host: '127.0.0.1', exclusive: true }, () => resolve(true));
      });
    await expect.poll(taken, { ...POLL, interval: 2 }).toBe(true);

    const ends = () => linesOf(service, 'worker exited');
    await expect.poll(() => ends().length, { ...POLL, timeout: 60_000 }).toBe(5);
    expect(ends().map(({ restartInMs }) => restartInMs)).toEqual([0, 100, 200, 400, 800]);
    const times = ends().map(({ time }) => Date.parse(time));
    for (const [i, { restartInMs }] of ends().entries()) {
      if (i < 4) expect(times[i + 1]! - times[i]!).toBeGreaterThanOrEqual(restartInMs! - 5);
    }
    for (const { reason } of linesOf(service, 'worker failed')) {
      expect(reason).toBe(`cannot listen on 127.0.0.1:${service.port}: the port is taken or may not be used`);
    }
    expect(linesOf(service, 'worker failed')).toHaveLength(4);
    expect((await service.admin('/readyz')).status).toBe(503);
    expect((await service.admin('/livez')).status).toBe(200);

    await new Promise((resolve) => thief.close(resolve));
    await expect.poll(async () => (await service.admin('/readyz')).status, POLL).toBe(200);
    expect((await service.get('/hotels/a')).status).toBe(200);
  });
});

describe('a worker that receives the order to drain during its start', () => {
  it('exits without having opened its port', async () => {
    // PostgreSQL that says nothing: the worker waits for it before it would listen, and longer when it ends
    const silent = createServer((socket) => socket.on('error', () => {}));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    closeAtEnd('a silent server', async () => void silent.close());
    const worker = fork(fileURLToPath(new URL('../../src/cluster/worker.ts', import.meta.url)), [], {
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const config = readConfig({
      DATABASE_URL: `postgres://nobody@127.0.0.1:${(silent.address() as AddressInfo).port}/nothing`,
      HOST: '127.0.0.1',
      PORT: String(await ownPort()),
      WORKERS: '1',
      LOG_LEVEL: 'silent',
    });
    closeAtEnd('a worker', async () => void worker.kill('SIGKILL'));
    const said: string[] = [];
    worker.on('message', (message: ToPrimary) => said.push(message.type));
    await once(worker, 'message');
    const feed = {
      history: 'h',
      generation: '1',
      receivedAtMs: -Infinity,
      position: undefined,
      secret: new Uint8Array(32),
    };
    const documents = { openApi: '', guide: '' };
    const orders: ToWorker[] = [{ type: 'start', number: 1, config, documents, ...feed }, { type: 'drain' }];
    for (const order of orders) worker.send(order);
    expect(await once(worker, 'exit')).toEqual([0, null]);
    expect(said).toContain('up');
    expect(said).not.toContain('listening');
  });
});

describe('the exit', () => {
  it.each([
    ['SIGTERM to the primary', 'SIGTERM', 1],
    ['SIGINT to the primary', 'SIGINT', 1],
    ['SIGTERM to all processes', 'SIGTERM', -1],
    ['SIGINT to all processes, as Ctrl-C sends it', 'SIGINT', -1],
  ] as const)(
    'on %s is clean: requests in progress are served, and no process is left',
    async (_, signal, target) => {
      const service = await startService({ redis: false, workers: 2, hotels: HOTELS });
      const slow = await openSlow(service);
      const idle = await open(service);
      idle.socket.write(`GET /hotels/a HTTP/1.1\r\nHost: a\r\nX-API-Key: ${service.fullKey}\r\n\r\n`);
      await expect.poll(idle.received, POLL).toContain('HTTP/1.1 200');
      const group = await groupOf(service.pid);
      expect(group).toHaveLength(3);

      process.kill(target * service.pid, signal);
      await untilClosed(service);
      expect((await service.admin('/readyz')).status).toBe(503);
      slow.finish();
      await slow.closed;
      expect(slow.received()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      expect(slow.received()).toMatch(/connection: close/i);
      expect(slow.received()).toContain('[{"id":"a"');
      await idle.closed;
      expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
      expect(await runningOf(group)).toEqual([]);
      expect(linesOf(service, 'stopping')).toMatchObject([{ signal }]);
      expect(linesOf(service, 'stopped')).toHaveLength(1);
      expect(linesOf(service, 'worker exited')).toEqual([]);
    },
  );

  it('is announced: not ready, while requests are still accepted', async () => {
    const waitMs = 2_500;
    const env = { DRAIN_WAIT_MS: String(waitMs) };
    const service = await startService({ redis: false, hotels: HOTELS, env });
    const kept = await open(service);
    process.kill(service.pid, 'SIGTERM');
    const toldAtMs = performance.now();
    await expect.poll(async () => (await service.admin('/readyz')).status, POLL).toBe(503);
    expect((await service.admin('/livez')).status).toBe(200);
    const answer = await service.get('/hotels/a', { headers: { connection: 'close' } });
    expect(answer.status).toBe(200);
    expect(performance.now() - toldAtMs).toBeLessThan(waitMs);
    // an idle connection outlives the wait, and is told to close by its next answer
    await untilClosed(service);
    kept.socket.write(`GET /hotels/a HTTP/1.1\r\nHost: a\r\nX-API-Key: ${service.fullKey}\r\n\r\n`);
    await kept.closed;
    expect(kept.received()).toMatch(/^HTTP\/1\.1 200 OK\r\n.*connection: close/is);
    expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
    expect(performance.now() - toldAtMs).toBeGreaterThan(waitMs);
  });

  it('does not wait for a request beyond its deadline', async () => {
    const service = await startService({ redis: false, hotels: HOTELS, env: { DRAIN_TIMEOUT_MS: '300' } });
    const slow = await openSlow(service);
    process.kill(service.pid, 'SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
    await slow.closed;
    expect(slow.received()).toBe('');
  });

  it('is forced by a second signal, but not by a duplicate, as npm forwards it', async () => {
    // what comes within 500 ms is the same one; on a busy machine we may be later than that
    const twice = async (): Promise<Service> => {
      const service = await startService({ redis: false, workers: 2, hotels: HOTELS });
      await openSlow(service);
      const sentAtMs = performance.now();
      process.kill(service.pid, 'SIGINT');
      await expect.poll(() => linesOf(service, 'stopping'), { ...POLL, interval: 5 }).toHaveLength(1);
      process.kill(service.pid, 'SIGINT');
      if (performance.now() - sentAtMs < 400) return service;
      await service.exited;
      return twice();
    };
    const service = await twice();
    const group = await groupOf(service.pid);
    await untilClosed(service);
    expect(await runningOf([service.pid])).toEqual([service.pid]);
    await sleep(500);
    process.kill(service.pid, 'SIGINT');
    expect(await service.exited).toEqual({ code: 1, signal: null, forced: false });
    expect(await runningOf(group)).toEqual([]);
  });

  it('of a killed primary is followed by that of its workers', async () => {
    const service = await startService({ redis: false, workers: 2, hotels: HOTELS });
    const group = await groupOf(service.pid);
    process.kill(service.pid, 'SIGKILL');
    expect(await service.exited).toEqual({ code: null, signal: 'SIGKILL', forced: false });
    expect(await runningOf(group)).toEqual([]);
  });

  it('is immediate for a service that waits for its database', async () => {
    const service = await startService({
      redis: false,
      awaitReady: false,
      env: { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing', DRAIN_WAIT_MS: '60000' },
    });
    await expect.poll(() => linesOf(service, 'dependency not ready, retrying'), POLL).toHaveLength(1);
    const toldAtMs = ownTimeMs();
    process.kill(service.pid, 'SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
    // neither the wait before the drain nor a try to connect
    expect(ownTimeMs() - toldAtMs).toBeLessThan(promisedMs(5_000));
  });
});
