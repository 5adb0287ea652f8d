import { Agent, get, type IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { closeAtEnd } from '../support/left-behind.ts';
import { type Service, startService } from '../support/service.ts';

/** A client that keeps its one connection as long as the server lets it. */
function keepingClient(service: Service) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  closeAtEnd('a client that keeps its connection', async () => agent.destroy());
  const ports = new Set<number>();
  const ask = async (): Promise<IncomingMessage> => {
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
  return { ask, ports };
}

it('a connection that is in use is told to close at its age, and the next answers come by a new one', async () => {
  const service = await startService({
    hotels: [{ id: 'h1' }],
    redis: false,
    env: { CONNECTION_MAX_AGE_S: '1' },
  });
  const { ask, ports } = keepingClient(service);
  let told = 0;
  for (let answers = 1; told < 3; answers++) {
    const { headers } = await ask();
    if (headers.connection === 'close') told++;
    expect(answers).toBeLessThan(200_000);
  }
  await ask();
  expect(ports.size).toBe(4);
  expect(await service.metric('hotel_api_connections_aged_total')).toBe(3);
  await service.stop();
});

it('by default an answer says how long the connection may be idle, and none of the first thousands closes it', async () => {
  const service = await startService({
    hotels: [{ id: 'h1' }],
    redis: false,
    env: { CONNECTION_MAX_AGE_S: '300' },
  });
  const { ask, ports } = keepingClient(service);
  for (let i = 0; i < 2_000; i++) {
    const { headers } = await ask();
    expect([headers['keep-alive'], headers.connection]).toEqual(['timeout=7', undefined]);
  }
  expect(ports.size).toBe(1);
  await service.stop();
});
