import { beforeAll, expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { Client } from '../support/client.ts';
import { needs } from '../support/needs.ts';
import { startNginx } from '../support/nginx.ts';
import { exchange } from '../support/raw-connection.ts';
import { ownPort, type Service, startService } from '../support/service.ts';
import { ingressConfiguration } from './ingress.ts';

await needs('nginx', 'kubectl');

let service: Service;
let port: number;
let edge: Client;

beforeAll(async () => {
  const hotels = Array.from({ length: 1_000 }, (_, i) => ({
    id: `h${i}`,
    channel_id: `C${i}`,
    description: 'x'.repeat(800),
  }));
  service = await startService({ workers: 2, hotels });
  // the second pod has just exited, and nginx has not noticed
  port = await startNginx([service.port, await ownPort()], await ingressConfiguration());
  edge = new Client(port, { full: service.fullKey, narrow: service.narrowKey });
  closeAtEnd('connections to nginx', async () => edge.close());
});

const post = (body: object) =>
  edge.request('/hotels/channel/batch', { method: 'POST' }, Buffer.from(JSON.stringify(body)));
const head = () => `Host: a\r\nx-api-key: ${service.fullKey}\r\n`;

it('whole batches pass unchanged, and clients do not notice the exit of a pod', async () => {
  const ids = Array.from({ length: 1_000 }, (_, i) => `C${i}`);
  const direct = await service.post('/hotels/channel/batch', { channel_ids: ids });
  for (let i = 0; i < 20; i++) {
    expect((await post({ channel_ids: ids })).body.equals(direct.body)).toBe(true);
    expect((await edge.request('/hotels/h1', {})).json()).toMatchObject({ id: 'h1' });
  }
});

it('errors of the service pass as its own JSON; a body over 1 MiB is rejected by nginx', async () => {
  expect((await post({ channel_ids: [1] })).json()).toEqual({ error: 'channel_ids must hold strings only' });
  const lengthOf = (ids: string[]) => JSON.stringify({ channel_ids: ids }).length;
  const largest = 'x'.repeat(1024 ** 2 - lengthOf(['']));
  expect((await post({ channel_ids: [largest] })).json()).toEqual([]);
  expect((await post({ channel_ids: [`${largest}x`] })).status).toBe(413);
});

it.each([
  [
    'two lengths that differ',
    `POST /hotels/channel/batch HTTP/1.1\r\nHEADContent-Length: 5\r\nContent-Length: 6\r\n\r\n{"a":1}`,
  ],
  [
    'an unknown transfer coding',
    `POST /hotels/channel/batch HTTP/1.1\r\nHEADTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    'a length beside chunks',
    `POST /hotels/channel/batch HTTP/1.1\r\nHEADContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ['a header without a name', `GET /hotels/h1 HTTP/1.1\r\nHEAD: empty\r\nX-After: 1\r\n\r\n`],
])('rejected by nginx: %s', async (_, request) => {
  const before = await service.metrics();
  const answer = await exchange(port, request.replace('HEAD', head()));
  expect(answer).toMatch(/^HTTP\/1\.1 (400|501) /);
  const requests = (metrics: string) => metrics.match(/^hotel_api_request_duration_seconds_count.*$/gm);
  expect(requests(await service.metrics())).toEqual(requests(before));
});
