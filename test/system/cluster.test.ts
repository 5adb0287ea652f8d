import { createServer } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { makeRelease } from '../procedures/release.ts';
import { Client } from '../support/client.ts';
import { linesOf } from '../support/log-lines.ts';
import { runningOf, unreadBytes } from '../support/processes.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { type Service, startService } from '../support/service.ts';

const BODY = JSON.stringify({ channel_ids: ['C'] });

/** Begins a request that the service cannot answer until `finish`, because half of its body is missing. */
async function openSlow(service: Service) {
  const connection = new RawConnection(service.port);
  await connection.write(
    `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nX-API-Key: ${service.fullKey}\r\n` +
      `Content-Length: ${BODY.length}\r\n\r\n${BODY.slice(0, 5)}`,
  );
  await expect.poll(() => service.metric('hotel_api_requests_in_progress')).not.toBe(0);
  return { connection, finish: () => connection.write(BODY.slice(5)) };
}

/** Resolves when the public port accepts no connections. */
async function untilClosed({ port }: Service): Promise<void> {
  const client = new Client(port, {}, false);
  await expect.poll(() => client.request('/').catch(({ code }) => code)).toBe('ECONNREFUSED');
}

const HOTELS = [{ id: 'a', channel_id: 'C' }];

describe('the workers', () => {
  let service: Service;

  beforeAll(async () => {
    service = await startService({ redis: false, workers: 3, hotels: HOTELS });
  });

  it.each([
    ['exits', 'SIGKILL'],
    ['is frozen', 'SIGSTOP'],
  ] as const)('are replaced when one %s', async (_, signal) => {
    await service.ready();
    const [victim, ...others] = await service.workerPids();
    process.kill(victim!, signal);
    const exited = () => linesOf(service.logs(), 'worker exited').at(-1);
    await expect.poll(exited).toMatchObject({ workerPid: victim, signal: 'SIGKILL' });
    await expect.poll(() => service.workerPids()).toHaveLength(3);
    expect(await service.workerPids()).toEqual(expect.arrayContaining(others));
  });

  it('may exit while the primary sends them a message', async () => {
    await service.ready();
    // on an accepted connection: the primary reads the request before it reads of the exits
    const connection = new RawConnection(service.adminPort);
    await connection.write('GET /metrics HTTP/1.1\r\n');
    await expect.poll(() => unreadBytes(service.pid, service.adminPort)).toBe(0);
    process.kill(service.pid, 'SIGSTOP');
    await connection.write('Host: a\r\n\r\n');
    await expect.poll(() => unreadBytes(service.pid, service.adminPort)).toBeGreaterThan(0);
    for (const pid of await service.workerPids()) process.kill(pid, 'SIGKILL');
    process.kill(service.pid, 'SIGCONT');
    await connection.closed;
    expect(connection.unread).toContain('hotel_api_');
    await expect.poll(() => service.workerPids()).toHaveLength(3);
    await service.ready();
    expect((await service.get('/hotels/a')).status).toBe(200);
  });

  // last, because no service is left
  it('exit after their primary was killed', async () => {
    const group = [service.pid, ...(await service.workerPids())];
    expect(group).toHaveLength(4);
    process.kill(service.pid, 'SIGKILL');
    expect(await service.exited).toEqual({ code: null, signal: 'SIGKILL', forced: false });
    expect(await runningOf(group)).toEqual([]);
  });
});

it('a worker that cannot start is restarted after growing pauses, with the reason in the log, and starts when it can', async () => {
  const service = await startService({ redis: false, hotels: HOTELS });
  const [worker] = await service.workerPids();
  // no new worker takes the port before the thief
  process.kill(service.pid, 'SIGSTOP');
  process.kill(worker!, 'SIGKILL');
  const thief = createServer();
  const taken = () =>
    new Promise<boolean>((resolve) => {
      thief.once('error', () => resolve(false));
      thief.listen({ port: service.port, host: '127.0.0.1', exclusive: true }, () => resolve(true));
    });
  await expect.poll(taken, { interval: 2 }).toBe(true);
  process.kill(service.pid, 'SIGCONT');

  const ends = () => linesOf(service.logs(), 'worker exited').slice(0, 5);
  await expect.poll(() => ends().length).toBe(5);
  expect(ends().map(({ restartInMs }) => restartInMs)).toEqual([0, 100, 200, 400, 800]);
  const times = ends().map(({ time }) => Date.parse(time));
  for (const [i, { restartInMs }] of ends().entries()) {
    if (i < 4) expect(times[i + 1]! - times[i]!).toBeGreaterThanOrEqual(restartInMs! - 5);
  }
  const failures = linesOf(service.logs(), 'fatal error').slice(0, 4);
  expect(failures).toHaveLength(4);
  for (const { err } of failures) {
    expect(err).toHaveProperty(
      'message',
      `cannot listen on 127.0.0.1:${service.port}: the port is taken or may not be used`,
    );
  }
  expect((await service.admin('/readyz')).status).toBe(503);
  expect((await service.admin('/livez')).status).toBe(200);

  await new Promise((resolve) => thief.close(resolve));
  await expect.poll(async () => (await service.admin('/readyz')).status).toBe(200);
  expect((await service.get('/hotels/a')).status).toBe(200);
});

it('a service in a folder of any name starts its workers', async () => {
  const program = await makeRelease({}, 'hotel api, 100% #1 ');
  const command: [string, ...string[]] = [process.execPath, program, 'serve'];
  const service = await startService({ redis: false, hotels: HOTELS, command });
  expect((await service.get('/hotels/a')).status).toBe(200);
  await service.stop();
});

describe('the exit', () => {
  it('of `npm start` on SIGTERM is that of the service', async () => {
    const service = await startService({ redis: false, command: ['npm', 'start'] });
    process.kill(service.pid, 'SIGTERM');
    await service.exited;
    expect(service.logs().join('\n')).toContain('"stopped"');
    await expect(service.admin('/livez')).rejects.toThrow('ECONNREFUSED');
  });

  it.each([
    ['SIGTERM to the primary', 'SIGTERM', 1],
    ['SIGINT to all processes, as Ctrl-C sends it', 'SIGINT', -1],
  ] as const)(
    'on %s is clean: requests in progress are served, and no process is left',
    async (_, signal, target) => {
      const service = await startService({ redis: false, workers: 2, hotels: HOTELS });
      const slow = await openSlow(service);
      const idle = new RawConnection(service.port);
      await idle.write(`GET /hotels/a HTTP/1.1\r\nHost: a\r\nX-API-Key: ${service.fullKey}\r\n\r\n`);
      expect((await idle.read())?.status).toBe(200);
      const group = [service.pid, ...(await service.workerPids())];
      expect(group).toHaveLength(3);

      process.kill(target * service.pid, signal);
      await untilClosed(service);
      expect((await service.admin('/readyz')).status).toBe(503);
      await slow.finish();
      await slow.connection.closed;
      expect(slow.connection.unread).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      expect(slow.connection.unread).toMatch(/connection: close/i);
      expect(slow.connection.unread).toContain('[{"id":"a"');
      await idle.closed;
      expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
      expect(await runningOf(group)).toEqual([]);
      expect(linesOf(service.logs(), 'stopping')).toMatchObject([{ signal }]);
      expect(linesOf(service.logs(), 'stopped')).toHaveLength(1);
      expect(linesOf(service.logs(), 'worker exited')).toEqual([]);
    },
  );

  it('is announced: the service is not ready, but still accepts requests', async () => {
    // shorter than a slow body and an idle connection may last
    const waitMs = 6_000;
    const env = { DRAIN_WAIT_MS: String(waitMs) };
    const service = await startService({ redis: false, hotels: HOTELS, env });
    const kept = new RawConnection(service.port);
    process.kill(service.pid, 'SIGTERM');
    await expect.poll(async () => (await service.admin('/readyz')).status).toBe(503);
    expect((await service.admin('/livez')).status).toBe(200);
    const response = await service.get('/hotels/a', { headers: { connection: 'close' } });
    expect(response.status).toBe(200);
    // without a request in progress the service would close idle connections half a second after the wait
    const slow = await openSlow(service);
    // an idle connection outlives the wait, and closes after its next response
    await untilClosed(service);
    await kept.write(`GET /hotels/a HTTP/1.1\r\nHost: a\r\nX-API-Key: ${service.fullKey}\r\n\r\n`);
    await kept.closed;
    expect(kept.unread).toMatch(/^HTTP\/1\.1 200 OK\r\n.*connection: close/is);
    await slow.finish();
    expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
  });

  it('does not wait for requests beyond its deadline', async () => {
    const service = await startService({ redis: false, hotels: HOTELS, env: { DRAIN_TIMEOUT_MS: '300' } });
    const slow = await openSlow(service);
    process.kill(service.pid, 'SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
    await slow.connection.closed;
    expect(slow.connection.unread).toBe('');
  });

  it('is forced by a second signal, but not by a duplicate, as npm forwards it', async () => {
    const service = await startService({ redis: false, workers: 2, hotels: HOTELS });
    await openSlow(service);
    const group = [service.pid, ...(await service.workerPids())];
    // it handles both at once when it continues; two of one kind would be one
    process.kill(service.pid, 'SIGSTOP');
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGCONT']) process.kill(service.pid, signal);
    await untilClosed(service);
    expect(linesOf(service.logs(), 'stopping')).toHaveLength(1);
    expect(await runningOf([service.pid])).toEqual([service.pid]);
    // biome-ignore lint/style/noRestrictedGlobals: a second signal of the same kind counts after half a second
    await new Promise((resolve) => setTimeout(resolve, 500));
    process.kill(service.pid, 'SIGINT');
    expect(await service.exited).toEqual({ code: 1, signal: null, forced: false });
    expect(await runningOf(group)).toEqual([]);
  });

  // without the wait before the drain, and without another attempt to connect
  it('is immediate for a service that waits for its database', { timeout: 50_000 }, async () => {
    const service = await startService({
      redis: false,
      awaitReady: false,
      env: { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing', DRAIN_WAIT_MS: '60000' },
    });
    await expect.poll(() => linesOf(service.logs(), 'dependency not ready, retrying')).toHaveLength(1);
    process.kill(service.pid, 'SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
  });
});
