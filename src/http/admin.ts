import { createServer, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { monotonicMs, pause } from '../lib/clock.ts';

/**
 * Maximum number of connections. Probes and scrapes need a few; more would use up the descriptors of the primary process. A further one
 * closes the oldest, so that connections without a request keep no probe out.
 */
export const MAX_CONNECTIONS = 128;

/**
 * Minimum interval between collections of metrics from the workers. Scrapes in between wait for the next collection.
 */
const MIN_INTERVAL_MS = 100;

/**
 * Shares one collection among all scrapes that arrived before it began. No scrape gets older values than its request.
 */
export function shared(gather: () => Promise<string>, pauseMs = MIN_INTERVAL_MS): () => Promise<string> {
  let next: Promise<string> | undefined;
  let current: Promise<unknown> = Promise.resolve();
  let beganAtMs = -Infinity;
  const begin = async (): Promise<string> => {
    await current;
    const restMs = beganAtMs + pauseMs - monotonicMs();
    if (restMs > 0) await pause(restMs);
    next = undefined;
    beganAtMs = monotonicMs();
    const gathering = gather();
    current = gathering.catch(() => {});
    return gathering;
  };
  return () => (next ??= begin());
}

/**
 * Opens the admin port: `/livez`, `/readyz` and `/metrics`. It calls no dependency, so it responds while they hang.
 */
export function openAdmin(
  host: string,
  port: number,
  source: { isReady: () => boolean; metrics: () => Promise<string>; contentType: string },
): Promise<{ close(): Promise<void> }> {
  const metrics = shared(source.metrics);
  const server = createServer(async (request, response) => {
    const send = (status: number, text: string, type = 'text/plain; charset=utf-8') =>
      response
        .writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) })
        .end(request.method === 'HEAD' ? undefined : text);
    if (hasBody(request)) {
      response.once('finish', () => request.socket.destroy());
      return send(400, 'a request with a body is not accepted here\n');
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      return send(405, 'method not allowed\n');
    }
    switch (request.url?.split('?')[0]) {
      case '/livez':
        return send(200, 'alive\n');
      case '/readyz':
        return source.isReady() ? send(200, 'ready\n') : send(503, 'not ready\n');
      case '/metrics':
        return metrics().then(
          (text) => send(200, text, source.contentType),
          () => send(500, 'the metrics could not be gathered\n'),
        );
      default:
        return send(404, 'not found: /livez, /readyz and /metrics are here\n');
    }
  });
  const connections = new Set<Socket>();
  // responses that a client leaves unread would pile up in the primary process
  server.maxRequestsPerSocket = 1;
  server.on('dropRequest', (_, socket) => socket.destroy());
  server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
    if (connections.size <= MAX_CONNECTIONS) return;
    const [oldest] = connections;
    connections.delete(oldest!);
    oldest!.destroy();
  });
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(new Error(`cannot listen on ${host}:${port}: ${error.message}`)));
    server.listen(port, host, () => {
      resolve({
        close: () =>
          new Promise((done) => {
            server.close(() => done());
            server.closeAllConnections();
          }),
      });
    });
  });
}

/** Nothing of a body is read: Node calls back for each chunk, of which one connection sends 10,000 in an iteration. */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0;
}
