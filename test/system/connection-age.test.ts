import { Agent, get, type IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { type Service, startService } from '../support/service.ts';

/** Client that keeps its one connection as long as the server permits. */
function keepingClient(service: Service) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  closeAtEnd('a client that keeps its connection', async () => agent.destroy());
  const ports = new Set<number>();
  const send = async (): Promise<IncomingMessage> => {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const headers = { 'x-api-key': service.fullKey };
    get(`${service.url}/hotels/h1`, { agent, headers }, resolve).on('error', reject);
    const response = await promise;
    ports.add(response.socket.localPort!);
    let length = 0;
    for await (const chunk of response) length += chunk.length;
    expect([response.statusCode, length]).toEqual([200, Number(response.headers['content-length'])]);
    return response;
  };
  return { send, ports };
}

it('a connection in use receives Connection: close at its maximum age, and later requests use a new one', async () => {
  const service = await startService({
    hotels: [{ id: 'h1' }],
    redis: false,
    env: { CONNECTION_MAX_AGE_S: '1' },
  });
  const { send, ports } = keepingClient(service);
  let announced = 0;
  for (let answers = 1; announced < 3; answers++) {
    const { headers } = await send();
    if (headers.connection === 'close') announced++;
    expect(answers).toBeLessThan(200_000);
  }
  await send();
  expect(ports.size).toBe(4);
  await expect.poll(() => service.metric('hotel_api_connections_aged_total')).toBe(3);
  await service.stop();
});

it('by default a response contains the idle time limit, and thousands of requests do not close the connection', async () => {
  const service = await startService({
    hotels: [{ id: 'h1' }],
    redis: false,
    env: { CONNECTION_MAX_AGE_S: '300' },
  });
  const { send, ports } = keepingClient(service);
  for (let i = 0; i < 2_000; i++) {
    const { headers } = await send();
    expect([headers['keep-alive'], headers.connection]).toEqual(['timeout=7', undefined]);
  }
  expect(ports.size).toBe(1);
  await service.stop();
});
