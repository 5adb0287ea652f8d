import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
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

/** Requests that the HTTP library accepts, or accepted in an earlier build, or waits for the rest of. */
const GAPS = {
  'a header without a name': get('Host: a\r\n: b\r\nx-c: d\r\n'),
  'a length behind a header without a name': post(`: b\r\nContent-Length: ${BODY.length}\r\n`, BODY),
  'a host behind a header without a name': get(': b\r\nHost: a\r\n'),
  'an empty host': get('Host: \r\n'),
  'a host with a blank': get('Host: a b\r\n'),
  'a host with a path': get('Host: a/b\r\n'),
  'two hosts': get('Host: a\r\nHost: b\r\n'),
  'two lengths that differ': post(`Content-Length: 3\r\nContent-Length: ${BODY.length}\r\n`, BODY),
  'two lengths, both right': post(`Content-Length: ${BODY.length}\r\n`.repeat(2), BODY),
  'chunks with bare line feeds': post(CHUNKED, `18\n${BODY}\n0\n\n`),
  'a bare line feed behind the size of a chunk': post(CHUNKED, `18\n${BODY}\r\n0\r\n\r\n`),
  'a missing line end behind a chunk': post(CHUNKED, `18\r\n${BODY}xx0\r\n\r\n`),
  'chunks with trailers': post(CHUNKED, `18\r\n${BODY}\r\n0\r\nContent-Length: 3\r\n\r\n`),
  'no header': 'GET /hotels/h1 HTTP/1.1\r\n\r\n',
  'a header without a colon': get('Host: a\r\nnonsense\r\n'),
  'a carriage return in a value': get('Host: a\r\nx-a: b\rc\r\n'),
};

/**
 * Returns the first fault of a request by the letter of RFC 9112; undefined if every parser finds the same headers and the same
 * end. `Host` may be missing or wrong: the service checks it.
 */
function faultOf(received: string): string | undefined {
  const end = received.indexOf('\r\n\r\n');
  const [first, ...lines] = received.slice(0, end).split('\r\n');
  if (!/^(GET|POST) \/\S* HTTP\/1\.1$/.test(first!)) return `the request line ${first}`;
  const valuesOf = (name: string) =>
    lines.filter((line) => line.toLowerCase().startsWith(`${name}:`)).map((line) => line.split(/: */)[1]!);
  const odd = lines.find((line) => !/^[\w!#$%&'*+.^`|~-]+:[\t\x20-\x7e\x80-\xff]*$/.test(line));
  if (odd !== undefined) return `the header ${JSON.stringify(odd)}`;
  const hosts = valuesOf('host');
  if (hosts.length > 1) return `the hosts ${hosts}`;
  const lengths = valuesOf('content-length');
  const codings = valuesOf('transfer-encoding');
  if (lengths.length + codings.length > 1) return 'two framings';
  let rest = received.slice(end + 4);
  if (codings.length === 0) return rest.length === Number(lengths[0] ?? 0) ? undefined : 'another length';
  for (;;) {
    const [head, digits] = /^([\da-f]+)\r\n/i.exec(rest) ?? [];
    if (head === undefined) return `the chunk ${JSON.stringify(rest.slice(0, 20))}`;
    const size = Number.parseInt(digits!, 16);
    if (size === 0) return /^0\r\n([\w-]+: .*\r\n)*\r\n$/.test(rest) ? undefined : 'the last chunk';
    if (rest.slice(head.length + size, head.length + size + 2) !== '\r\n') return 'the end of a chunk';
    rest = rest.slice(head.length + size + 2);
  }
}

/** Server that records the requests but health checks, one a connection, and answers those that have no fault with 200. */
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
      if (faultOf(bytes) === undefined || bytes.startsWith('GET /readyz'))
        socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeAtEnd('recorder', async () => void server.close());
  return { port: (server.address() as AddressInfo).port, received };
}

describe.each([
  ['nginx', (port: number) => startNginx([port])],
  ['HAProxy', (port: number) => startHaproxy([port], port)],
])('%s rejects, or rewrites so that every parser reads the same,', (_, startProxy) => {
  let recorder: Awaited<ReturnType<typeof startRecorder>>;
  let port: number;

  beforeAll(async () => {
    recorder = await startRecorder();
    port = await startProxy(recorder.port);
  });

  it.each(Object.entries(GAPS))('%s', async (_, request) => {
    recorder.received.length = 0;
    const answer = await exchange(port, request);
    for (const received of recorder.received) expect(faultOf(received), received).toBeUndefined();
    if (recorder.received.length === 0) expect(answer).toMatch(/^HTTP\/1\.[01] 400 /);
  });
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
