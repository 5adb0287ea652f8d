import { expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { Client } from '../support/client.ts';
import { startService } from '../support/service.ts';

/** Starts a service with this age of connections, and a client that keeps its one connection as long as the server permits. */
async function withAge(seconds: number) {
  const env = { CONNECTION_MAX_AGE_S: String(seconds) };
  const service = await startService({ hotels: [{ id: 'h1' }], redis: false, env });
  const client = new Client(service.port, { full: service.fullKey });
  closeAtEnd('a client that keeps its connection', async () => client.close());
  return async () => {
    const { status, headers } = await client.request('/hotels/h1');
    expect(status).toBe(200);
    return [headers.connection, headers['keep-alive']];
  };
}

it('a connection in use receives Connection: close at its maximum age, and later requests use a new one', async () => {
  const send = await withAge(1);
  for (let announced = 0; announced < 3; ) if ((await send())[0] === 'close') announced++;
  await send();
});

it('by default a response contains the idle time limit, and thousands of requests do not close the connection', async () => {
  const send = await withAge(300);
  for (let i = 0; i < 2_000; i++) expect(await send()).toEqual([undefined, 'timeout=7']);
});
