import { expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { startService } from '../support/service.ts';

/** More in all than the kernel buffers for a client that does not read. */
const HOTELS = Array.from({ length: 1_000 }, (_, i) => ({
  id: `h${i}`,
  channel_id: `C${i}`,
  description: 'x'.repeat(8_000),
}));
const BODY = JSON.stringify({ channel_ids: HOTELS.map(({ channel_id }) => channel_id) });

it('a stopping service waits until a client that reads slowly has received its response', async () => {
  const service = await startService({ redis: false, hotels: HOTELS });
  const reader = new RawConnection(service.port);
  closeAtEnd('a slow reader', async () => reader.close());
  const arrival = reader.arrival();
  const head = `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n`;
  await reader.write(`${head}Content-Length: ${BODY.length}\r\n\r\n${BODY}`);
  await arrival;
  reader.pause();
  // sending is no part of the request
  await expect.poll(() => service.metric('hotel_api_requests_in_progress')).toBe(0);
  process.kill(service.pid, 'SIGTERM');
  // biome-ignore lint/style/noRestrictedGlobals: three times the idle time limit of a stopping service has to pass
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(await service.workerPids()).toHaveLength(1);
  reader.resume();
  await reader.closed;
  expect((await reader.read())?.body).toMatch(/\]$/);
  expect(await service.exited).toEqual({ code: 0, signal: null, forced: false });
});
