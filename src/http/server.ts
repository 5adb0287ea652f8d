import * as uWebSockets from 'uWebSockets.js';
import { App, type HttpRequest, us_listen_socket_close } from 'uWebSockets.js';
import { publicErrors } from '../errors.ts';
import type { Exchange } from './exchange.ts';
import type { Gate, Handler } from './gate.ts';
import type { Operations } from './hotels.ts';
import type { Page } from './page.ts';

/** The public port of one worker. */
export interface Server {
  /** Listens; throws when the port cannot be had. */
  listen(host: string, port: number): Promise<void>;
  /** Accepts no further connection; those that are open go on. */
  stopAccepting(): void;
  /** Open connections. */
  readonly connections: number;
  /** Closes every connection. */
  close(): void;
}

/** Paths of the contract, with the methods each knows; `*` stands for one segment that is not empty. */
const PATHS: [path: string[], allow: string][] = [
  [['hotels'], 'GET, HEAD'],
  [['hotels', 'channel', 'batch'], 'GET, HEAD, POST'],
  [['hotels', 'registry', 'batch'], 'GET, HEAD, POST'],
  [['hotels', '*'], 'GET, HEAD'],
  [['hotels', 'channel', '*'], 'GET, HEAD'],
  [['hotels', 'registry', '*'], 'GET, HEAD'],
];

/** Routes the contract's paths, after `basePath`, to its operations, and those of `pages` to what anybody may see. */
export function openServer(
  operations: Operations,
  gate: Gate,
  pages: ReadonlyMap<string, Page>,
  basePath: string,
): Server {
  // without this every answer would carry the library's name; its types leave the function out
  (uWebSockets as unknown as { _cfg(setting: string): void })._cfg('silent');
  const app = App();
  const refuse = gate.refuse((exchange, request) => refuseUnknown(exchange, request, pages, basePath));
  const reads: [path: string, handlerOf: (method: 'GET' | 'HEAD') => Handler][] = [
    ['/hotels', (method) => gate.get(operations.list, method)],
    ['/hotels/:id', (method) => gate.get(operations.hotel, method)],
    ['/hotels/channel/:id', (method) => gate.get(operations.hotelByChannel, method)],
    ['/hotels/registry/:id', (method) => gate.get(operations.hotelByRegistry, method)],
  ];
  for (const [path, handlerOf] of reads) {
    app.get(basePath + path, handlerOf('GET'));
    app.head(basePath + path, handlerOf('HEAD'));
  }
  for (const [path, page] of pages) {
    app.get(basePath + path, gate.page(page, 'GET'));
    app.head(basePath + path, gate.page(page, 'HEAD'));
  }
  app.post(`${basePath}/hotels/channel/batch`, gate.post(operations.batchByChannel));
  app.post(`${basePath}/hotels/registry/batch`, gate.post(operations.batchByRegistry));
  // an empty id is no id: these paths are unknown
  for (const path of ['/hotels/', '/hotels/channel/', '/hotels/registry/']) app.any(basePath + path, refuse);
  app.any('/*', refuse);

  let connections = 0;
  const count = (_: unknown, delta: number): void => {
    connections += delta;
  };
  (app as unknown as { filter(hear: typeof count): void }).filter(count);
  let listenSocket: Parameters<typeof us_listen_socket_close>[0] | false = false;
  return {
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        app.listen(host, port, (socket) => {
          listenSocket = socket;
          if (socket) resolve();
          else reject(new Error(`cannot listen on ${host}:${port}: the port is taken or may not be used`));
        });
      }),
    stopAccepting: () => {
      if (listenSocket) us_listen_socket_close(listenSocket);
      listenSocket = false;
    },
    get connections() {
      return connections;
    },
    close: () => app.close(),
  };
}

function refuseUnknown(
  exchange: Exchange,
  request: HttpRequest,
  pages: ReadonlyMap<string, Page>,
  basePath: string,
): void {
  const url = request.getUrl();
  const path = url.startsWith(`${basePath}/`) ? url.slice(basePath.length) : '';
  const segments = path.slice(1).split('/');
  const known = PATHS.find(
    ([path]) =>
      path.length === segments.length &&
      path.every((part, i) => (part === '*' ? segments[i] !== '' : part === segments[i])),
  );
  const allowed = pages.has(path) ? 'GET, HEAD' : known?.[1];
  if (allowed) exchange.fail(publicErrors.methodNotAllowed, `\r\nallow: ${allowed}`);
  else exchange.fail(publicErrors.pathNotFound);
}
