import { once } from 'node:events';
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
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
 * Fault of the proxy. It responds itself, or closes the connection before the response or in the middle of its body (with
 * or without a content-length).
 */
export type FrontFault =
  | { status: number; retryAfterS?: number; headers?: OutgoingHttpHeaders; body?: string }
  | 'cut'
  | 'cut body'
  | 'cut body without length';

/** Starts a proxy before a service that responds to some requests itself, like gateways: by their number, from 1. */
export async function startFront(
  port: number,
  faults: Record<number, FrontFault>,
): Promise<{ url: string; seen: FrontRequest[] }> {
  const seen: FrontRequest[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const body = await buffer(incoming);
    const { method, url: path, headers } = incoming as IncomingMessage & { method: string; url: string };
    const record = { atMs: performance.now(), method, path, headers, body: body.toString(), status: 0 };
    seen.push(record);
    const fault = faults[seen.length];
    if (fault === 'cut') {
      incoming.socket.destroy();
    } else if (typeof fault === 'object') {
      const { status, retryAfterS, headers, body = '{"error":"Later"}' } = fault;
      record.status = status;
      const retryAfter = retryAfterS && { 'retry-after': String(retryAfterS) };
      const own = { 'content-type': 'application/json', ...retryAfter, 'x-request-id': 'front' };
      outgoing.writeHead(status, { ...own, ...headers }).end(body);
    } else {
      const forwarded = request({ host: '127.0.0.1', port, method, path, headers, agent: false });
      const [response] = (await once(forwarded.end(body), 'response')) as [IncomingMessage];
      const whole = await buffer(response);
      record.status = response.statusCode!;
      const { 'content-length': _, ...others } = response.headers;
      // without a length, the end of the connection ends the body
      const hasLength = fault !== 'cut body without length';
      outgoing.useChunkedEncodingByDefault = hasLength;
      outgoing.writeHead(record.status, hasLength ? response.headers : { ...others, connection: 'close' });
      if (fault === undefined) outgoing.end(whole);
      else outgoing.write(whole.subarray(0, whole.length / 2), () => outgoing.socket!.end());
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  closeAtEnd('front', async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}
