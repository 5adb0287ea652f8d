import { createServer, type OutgoingHttpHeaders } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { listen } from './cleanup.ts';
import { Client } from './client.ts';

/** Request that the proxy received. */
export interface FrontRequest {
  atMs: number;
  path: string;
  body: string;
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
    const { method, url: path, headers } = incoming as { method: string; url: string } & typeof incoming;
    seen.push({ atMs: performance.now(), path, body: body.toString() });
    const fault = faults[seen.length];
    if (fault === 'cut') {
      incoming.socket.destroy();
    } else if (typeof fault === 'object') {
      const { status, retryAfterS, headers, body = '{"error":"Later"}' } = fault;
      const retryAfter = retryAfterS && { 'retry-after': String(retryAfterS) };
      const own = { 'content-type': 'application/json', ...retryAfter, 'x-request-id': 'front' };
      outgoing.writeHead(status, { ...own, ...headers }).end(body);
    } else {
      const client = new Client(port, {}, false);
      const response = await client.request(path, { method, headers }, body.length ? body : undefined);
      const { 'content-length': _, ...others } = response.headers;
      // without a length, the end of the connection ends the body
      const hasLength = fault !== 'cut body without length';
      outgoing.useChunkedEncodingByDefault = hasLength;
      outgoing.writeHead(response.status, hasLength ? response.headers : { ...others, connection: 'close' });
      if (fault === undefined) outgoing.end(response.body);
      else outgoing.write(response.body.subarray(0, response.body.length / 2), () => outgoing.socket!.end());
    }
  });
  return { url: `http://127.0.0.1:${await listen(server)}`, seen };
}
