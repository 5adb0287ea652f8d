import * as uws from 'uWebSockets.js';
import { publicErrors } from '../errors.ts';
import { nextIteration } from '../lib/clock.ts';
import { HTTP_ROUTES } from '../observability/routes.ts';
import type { Operation } from './operations.ts';
import type { Handler, RequestPipeline } from './request-pipeline.ts';
import type { StaticPage } from './static-page.ts';

/** What the library's types omit. */
interface Untyped {
  _cfg(setting: 'silent'): void;
}
type App = ReturnType<typeof uws.App> & {
  /** Calls back for each connection: `delta` is 1 when it opens and -1 when it closes. */
  filter(receive: (connection: { close(): void }, delta: number) => void): App;
};

export const App = uws.App as unknown as () => App;

/** Removes the library's name from every response. Some builds of the library export the function in `default` only. */
export function silence(): void {
  const { _cfg, default: rest } = uws as unknown as Untyped & { default?: Untyped };
  (_cfg ?? rest!._cfg)('silent');
}

/** The public port of one worker. */
export type Server = ReturnType<typeof openServer>;

/** Registration methods of the library by HTTP method. */
const REGISTER = { GET: 'get', HEAD: 'head', POST: 'post' } as const;

/** A path, in which `:id` matches one segment, and the handlers of its methods. */
type Route = [path: string, handlers: Partial<Record<keyof typeof REGISTER, Handler>>];

/**
 * Opens the server. It routes the contract's paths, after `basePath`, to its operations, and those of `pages` to
 * public pages. Above `maxConnections` a new connection is closed at once: the remaining descriptors are for Redis,
 * PostgreSQL and files.
 */
export function openServer(
  operations: readonly Operation[],
  pipeline: RequestPipeline,
  pages: ReadonlyMap<string, StaticPage>,
  basePath: string,
  limit: { maxConnections: number; onRejected: () => void },
) {
  silence();
  const app = App();
  const routes = operations.map((operation): Route => {
    const handlers =
      'read' in operation
        ? { GET: pipeline.get(operation, 'GET'), HEAD: pipeline.get(operation, 'HEAD') }
        : { POST: pipeline.post(operation) };
    return [HTTP_ROUTES[operation.route].replace(/{.*}/, ':id'), handlers];
  });
  for (const [path, page] of pages)
    routes.push([path, { GET: pipeline.page(page, 'GET'), HEAD: pipeline.page(page, 'HEAD') }]);
  const unknown = pipeline.reject(publicErrors.pathNotFound);
  for (const [path, handlers] of routes) {
    for (const method of methodsOf(handlers)) app[REGISTER[method]](basePath + path, handlers[method]!);
    const matching = routes.filter(([other]) => isMatch(other, path));
    const allowed = matching.flatMap(([, others]) => methodsOf(others)).join(', ');
    app.any(basePath + path, pipeline.reject(publicErrors.methodNotAllowed, `\r\nallow: ${allowed}`));
    // an empty id is not an id: this path is unknown
    if (path.endsWith('/:id')) app.any(basePath + path.slice(0, -':id'.length), unknown);
  }
  app.any('/*', unknown);

  let connections = 0;
  const count = (connection: { close(): void }, delta: number): void => {
    connections += delta;
    if (delta < 0 || connections <= limit.maxConnections) return;
    limit.onRejected();
    connection.close();
  };
  app.filter(count);
  let listenSocket: uws.us_listen_socket | false = false;
  return {
    /** Listens; throws if the port is taken. */
    listen: (host: string, port: number) =>
      new Promise<void>((resolve, reject) => {
        app.listen(host, port, (socket) => {
          listenSocket = socket;
          if (socket) resolve();
          else reject(new Error(`cannot listen on ${host}:${port}: the port is taken or may not be used`));
        });
      }),
    /** Accepts the connections that have been made so far, and no others; open ones continue. */
    stopAccepting: async () => {
      // the kernel resets what waits to be accepted when the socket closes: the whole of the next iteration accepts it
      await nextIteration();
      await nextIteration();
      if (listenSocket) uws.us_listen_socket_close(listenSocket);
      listenSocket = false;
    },
    get connections() {
      return connections;
    },
    /** Closes every connection. */
    close: () => void app.close(),
  };
}

function methodsOf(handlers: Route[1]): (keyof typeof REGISTER)[] {
  return Object.keys(handlers) as (keyof typeof REGISTER)[];
}

/** Returns true if a route matches the path of another one. */
function isMatch(route: string, path: string): boolean {
  const segments = path.split('/');
  const parts = route.split('/');
  return parts.length === segments.length && parts.every((part, i) => part === ':id' || part === segments[i]);
}
