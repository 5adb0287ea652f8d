import { expect, it } from 'vitest';
import { Client } from '../../test/support/client.ts';
import { RawConnection } from '../../test/support/raw-connection.ts';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import { freePort } from '../demo/servers/port.ts';
import { pipelineFor } from './request-pipeline.fixture.ts';
import { openServer } from './server.ts';
import { StaticPage } from './static-page.ts';

const CLIENTS = 20;
const REQUEST = 'GET /docs HTTP/1.1\r\nhost: h\r\n\r\n';

it('connections that wait to be accepted when the server stops accepting are answered', async () => {
  const page = new StaticPage('text/plain', '', () => Buffer.from('page'));
  const limit = { maxConnections: 100, onRejected: () => {} };
  const server = openServer([], pipelineFor({} as ApiKeyCache), new Map([['/docs', page]]), '', limit);
  const port = await freePort();
  await server.listen('127.0.0.1', port);

  const answers = Array.from({ length: CLIENTS }, async () => {
    const connection = new RawConnection(port);
    void connection.write(REQUEST);
    return connection.read();
  });
  // the kernel connects now, and the loop has had no time to accept
  await new Promise(process.nextTick);
  expect(server.connections).toBe(0);
  await server.stopAccepting();
  for (const answer of await Promise.all(answers))
    expect(answer).toMatchObject({ status: 200, body: 'page' });
  await expect(new Client(port).request('/docs')).rejects.toThrow('ECONNREFUSED');
  server.close();
});
