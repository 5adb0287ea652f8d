import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { closeAtEnd } from './left-behind.ts';

/** A request that came to the front, and how it was answered. */
export interface Seen {
  atMs: number;
  method: string;
  path: string;
  body: string;
  /** 0: the connection was cut */
  status: number;
}

/** What the front does to a request instead of handing it on. */
export type Rejection = { status: 429 | 503; retryAfterS: number } | 'cut';

/** A proxy before a service that refuses some requests, as a busy service does: by their number, from 1. */
export async function startFront(
  port: number,
  errorReplies: Record<number, Rejection>,
): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { method, url: path } = incoming as { method: string; url: string };
    const noted: Seen = { atMs: performance.now(), method, path, body: body.toString(), status: 0 };
    seen.push(noted);
    const rejection = errorReplies[seen.length];
    if (rejection === 'cut') {
      incoming.socket.destroy();
    } else if (rejection) {
      noted.status = rejection.status;
      outgoing
        .writeHead(rejection.status, {
          'content-type': 'application/json',
          'retry-after': String(rejection.retryAfterS),
          'x-request-id': 'front',
        })
        .end('{"error":"Later"}');
    } else {
      noted.status = await handOn(port, incoming, body, outgoing);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd('front', async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

function handOn(port: number, from: IncomingMessage, body: Buffer, to: ServerResponse): Promise<number> {
  return new Promise((resolve, reject) => {
    const { method, url: path, headers } = from;
    request({ host: '127.0.0.1', port, method, path, headers, agent: false }, (answer) => {
      to.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(to);
      answer.on('end', () => resolve(answer.statusCode!));
    })
      .on('error', reject)
      .end(body);
  });
}
