import { beforeEach, describe, expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { type Service, startService } from '../support/service.ts';

/** More in all than the kernel buffers for a client that does not read. */
const HOTELS = Array.from({ length: 1_000 }, (_, i) => ({
  id: `h${i}`,
  channel_id: `C${i}`,
  description: 'x'.repeat(8_000),
}));
const BODY = JSON.stringify({ channel_ids: HOTELS.map(({ channel_id }) => channel_id) });
const SLOW_S = 4;

/** Requests the batch, and pauses after the first bytes of the response. */
async function sendAndPause(service: Service): Promise<RawConnection> {
  const connection = new RawConnection(service.port);
  closeAtEnd('a slow reader', async () => connection.close());
  const arrival = connection.arrival();
  await connection.write(
    `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n` +
      `Content-Length: ${BODY.length}\r\n\r\n${BODY}`,
  );
  await arrival;
  connection.pause();
  return connection;
}

describe('while a client reads its response slowly', () => {
  let service: Service;

  beforeEach(async () => {
    service = await startService({ redis: false, hotels: HOTELS });
    // from here on the local cache holds them all
    expect((await service.post('/hotels/channel/batch', BODY)).status).toBe(200);
  });

  it('its request is no longer in progress, and the duration of sending is not counted', async () => {
    const route = { http_route: '/hotels/channel/batch' };
    const count = () => service.metric('hotel_api_request_duration_seconds_count', route);
    const sumS = () => service.metric('hotel_api_request_duration_seconds_sum', route);
    await expect.poll(count).toBe(1);
    const beforeS = await sumS();
    const reader = await sendAndPause(service);
    await expect.poll(() => service.metric('hotel_api_requests_in_progress')).toBe(0);
    // biome-ignore lint/style/noRestrictedGlobals: the client takes this time, of which nothing may be counted
    await new Promise((resolve) => setTimeout(resolve, 1_000 * SLOW_S));
    reader.resume();
    expect((await reader.read())?.body).toMatch(/\]$/);
    await expect.poll(count).toBe(2);
    expect((await sumS()) - beforeS).toBeLessThan(SLOW_S);
  });

  it('a stopping service waits until the client has received the response', async () => {
    const reader = await sendAndPause(service);
    process.kill(service.pid, 'SIGTERM');
    // biome-ignore lint/style/noRestrictedGlobals: three times the idle time limit of a stopping service has to pass
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(await service.workerPids()).toHaveLength(1);
    reader.resume();
    await reader.closed;
    expect((await reader.read())?.body).toMatch(/\]$/);
    expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
  });
});
