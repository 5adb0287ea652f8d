import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { listen } from '../support/cleanup.ts';
import { startHaproxy } from '../support/haproxy.ts';
import { needs } from '../support/needs.ts';
import { startNginx } from '../support/nginx.ts';
import { exchange } from '../support/raw-connection.ts';
import { startService } from '../support/service.ts';

await needs('nginx', 'haproxy');

const BODY = '{"channel_ids":["CH-1"]}';
const post = (headers: string, body: string) =>
  `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${headers}\r\n${body}`;
const get = (headers: string) => `GET /hotels/h1 HTTP/1.1\r\nConnection: close\r\n${headers}\r\n`;
const CHUNKED = 'Transfer-Encoding: chunked\r\n';

/** Faults that the HTTP library hides from the service, each with the bytes that show it. */
const GAPS: [what: string, request: string, fault: string][] = [
  ['a header without a name', get('Host: a\r\n: b\r\nx-c: d\r\n'), '\r\n: b'],
  [
    'a length behind a header without a name',
    post(`: b\r\nContent-Length: ${BODY.length}\r\n`, BODY),
    '\r\n: b',
  ],
  ['a host behind a header without a name', get(': b\r\nHost: a\r\n'), '\r\n: b'],
  ['chunks with bare line feeds', post(CHUNKED, `18\n${BODY}\n0\n\n`), `18\n${BODY}`],
  ['a missing line end behind a chunk', post(CHUNKED, `18\r\n${BODY}xx0\r\n\r\n`), `${BODY}xx`],
];

/** Server that records the requests but health checks, one a connection, and answers each that is whole with 200. */
async function startRecorder(): Promise<{ port: number; received: string[] }> {
  const received: string[] = [];
  const server = createServer((socket) => {
    let bytes = '';
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      const isFirst = bytes === '';
      bytes += chunk.toString('latin1');
      if (!bytes.startsWith('GET /readyz')) {
        if (isFirst) received.push('');
        received[received.length - 1] = bytes;
      }
      if (bytes.startsWith('GET') ? bytes.endsWith('\r\n\r\n') : bytes.includes(BODY))
        socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    });
  });
  return { port: await listen(server), received };
}

it.each([
  ['nginx', (port: number) => startNginx([port])],
  ['HAProxy', (port: number) => startHaproxy([port], port)],
])('%s rejects what the HTTP library accepts, or passes it on without the fault', async (_, startProxy) => {
  const recorder = await startRecorder();
  const port = await startProxy(recorder.port);
  for (const [what, request, fault] of GAPS) {
    recorder.received.length = 0;
    const answer = await exchange(port, request);
    for (const received of recorder.received) expect(received, what).not.toContain(fault);
    expect(answer, what).toMatch(/^HTTP\/1\.[01] (200|400) /);
  }
});

it('chunks behind an empty coding are rejected, which HAProxy passes on, and the next client is answered', async () => {
  const service = await startService({ hotels: [{ id: 'h1' }] });
  const port = await startHaproxy([service.port], service.adminPort);
  const chunks = `${get(`Host: a\r\nTransfer-Encoding:\r\n${CHUNKED}`)}5\r\nabcde\r\n0\r\n\r\n`;
  for (let i = 0; i < 10; i++) {
    expect(await exchange(port, chunks)).toMatch(/^HTTP\/1\.1 400 /);
    const next = get(`Host: a\r\nx-api-key: ${service.fullKey}\r\n`);
    expect(await exchange(port, next)).toMatch(/^HTTP\/1\.1 200 /);
  }
});
