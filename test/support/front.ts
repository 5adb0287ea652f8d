import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { closeAtEnd } from './cleanup.ts';

/** Request that the proxy received, and its response. */
export interface FrontRequest {
  atMs: number;
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
  /** 0: the connection was closed before the response */
  status: number;
}

/**
 * Fault of the proxy. It responds itself, closes the connection before the response or in the middle of its body (with
 * or without a content-length), or never responds.
 */
export type Rejection =
  | { status: number; retryAfterS?: number; headers?: OutgoingHttpHeaders; body?: string }
  | 'silent'
  | 'cut'
  | 'cut body'
  | 'cut body without length';

/** Starts a proxy before a service that responds to some requests itself, like gateways: by their number, from 1. */
export async function startFront(
  port: number,
  errorReplies: Record<number, Rejection>,
): Promise<{ url: string; seen: FrontRequest[] }> {
  const seen: FrontRequest[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { method, url: path, headers } = incoming as IncomingMessage & { method: string; url: string };
    const record = { atMs: performance.now(), method, path, headers, body: body.toString(), status: 0 };
    seen.push(record);
    const rejection = errorReplies[seen.length];
    if (rejection === 'silent') {
      // until the client disconnects
    } else if (rejection === 'cut') {
      incoming.socket.destroy();
    } else if (typeof rejection === 'object') {
      record.status = rejection.status;
      outgoing
        .writeHead(rejection.status, {
          'content-type': 'application/json',
          ...(rejection.retryAfterS && { 'retry-after': String(rejection.retryAfterS) }),
          'x-request-id': 'front',
          ...rejection.headers,
        })
        .end(rejection.body ?? '{"error":"Later"}');
    } else {
      record.status = await forward(port, incoming, body, outgoing, rejection);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd('front', async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

function forward(
  port: number,
  from: IncomingMessage,
  body: Buffer,
  to: ServerResponse,
  cut: 'cut body' | 'cut body without length' | undefined,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const { method, url: path, headers } = from;
    request({ host: '127.0.0.1', port, method, path, headers, agent: false }, async (response) => {
      if (cut === undefined) {
        to.writeHead(response.statusCode!, response.headers);
        response.pipe(to);
        response.on('end', () => resolve(response.statusCode!));
        return;
      }
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      const whole = Buffer.concat(chunks);
      const { 'content-length': length, ...others } = response.headers;
      const sent =
        cut === 'cut body' ? { ...others, 'content-length': length } : { ...others, connection: 'close' };
      // without a length, the end of the connection ends the body
      if (cut === 'cut body without length') to.useChunkedEncodingByDefault = false;
      to.writeHead(response.statusCode!, sent);
      to.write(whole.subarray(0, whole.length / 2), () => to.socket!.end());
      resolve(response.statusCode!);
    })
      .on('error', reject)
      .end(body);
  });
}
