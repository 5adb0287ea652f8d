import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { samplesOf } from '../support/exposition.ts';
import { closeAtEnd } from '../support/left-behind.ts';
import { type Service, startService } from '../support/service.ts';

/** More in all than the kernel takes for a client that does not read. */
const HOTELS = Array.from({ length: 1_000 }, (_, i) => ({
  id: `h${i}`,
  channel_id: `C${i}`,
  description: 'x'.repeat(8_000),
}));
const BODY = JSON.stringify({ channel_ids: HOTELS.map(({ channel_id }) => channel_id) });
const SLOW_MS = 1_500;

/** Asks for the batch, and reads no further than the answer's first bytes until it is told to. */
async function askAndPause(service: Service) {
  const socket = connect({ port: service.port, host: '127.0.0.1' });
  closeAtEnd('a slow reader', async () => void socket.destroy());
  let received = '';
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await new Promise<void>((resolve) => {
    socket.on('data', (chunk) => {
      if (received === '') {
        socket.pause();
        resolve();
      }
      received += chunk;
    });
    socket.write(
      `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n` +
        `Content-Length: ${BODY.length}\r\n\r\n${BODY}`,
    );
  });
  const isWhole = () => {
    const head = received.indexOf('\r\n\r\n');
    const length = Number(/content-length: (\d+)/i.exec(received)![1]);
    return received.length - head - 4 === length && received.endsWith(']');
  };
  return { isWhole, goOn: () => socket.resume(), closed };
}

describe('while a client reads its response slowly', () => {
  let service: Service;

  beforeEach(async () => {
    service = await startService({
      redis: false,
      hotels: HOTELS,
      env: { ACCESS_LOG_SLOW_MS: String(SLOW_MS) },
    });
    // from here on the local cache holds them all
    expect((await service.post('/hotels/channel/batch', BODY)).status).toBe(200);
  });

  const sampleOf = async (name: string, route?: string) =>
    samplesOf(await service.metrics())
      .filter((sample) => sample.name === name && (!route || sample.labels.http_route === route))
      .reduce((sum, { value }) => sum + value, 0);

  it('its request is no longer in progress, and the time of sending is not counted', async () => {
    const sum = () => sampleOf('hotel_api_request_duration_seconds_sum', '/hotels/channel/batch');
    const count = () => sampleOf('hotel_api_request_duration_seconds_count', '/hotels/channel/batch');
    const before = await sum();
    const reader = await askAndPause(service);
    expect(await sampleOf('hotel_api_requests_in_progress')).toBe(0);
    expect(await count()).toBe(1);
    await sleep(1.5 * SLOW_MS);
    reader.goOn();
    await expect.poll(reader.isWhole, { interval: 20, timeout: 60_000 }).toBe(true);
    await expect.poll(count, { interval: 20 }).toBe(2);
    expect((await sum()) - before).toBeLessThan(SLOW_MS / 1_000);
    expect(service.logs().filter((line) => line.includes('slow request') && line.includes('POST'))).toEqual(
      [],
    );
  });

  it('a stopping service waits until it has received the response', async () => {
    const reader = await askAndPause(service);
    process.kill(service.pid, 'SIGTERM');
    // three times as long as a connection may be idle then
    await sleep(1_500);
    expect(await service.workerPids()).toHaveLength(1);
    reader.goOn();
    await reader.closed;
    expect(reader.isWhole()).toBe(true);
    expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
  });
});
