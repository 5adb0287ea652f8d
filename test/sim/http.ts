import type { Route } from '../../src/observability/routes.ts';
import type { Server, Worker } from './instance.ts';
import { entryOf } from './world.ts';

/** Request as the handlers of the service read it. */
export interface HttpRequest {
  route: Route;
  parameter?: string;
  query?: string;
  body?: string;
  key: string;
}

export interface HttpAnswer {
  status: number;
  body: string;
}

/** Handler of the HTTP library. */
type Handler = (response: object, request: object) => void;

const handlersOf = new WeakMap<Server, Map<string, Handler>>();

function handlerOf(server: Server, route: HttpRequest['route']): Handler {
  const { operations, pipeline } = server;
  return entryOf(
    entryOf(handlersOf, server, () => new Map()),
    route,
    (): Handler => {
      const operation = operations.find((each) => each.route === route)!;
      return ('read' in operation ? pipeline.get(operation, 'GET') : pipeline.post(operation)) as never;
    },
  );
}

/** Sends a request to a worker, which answers when its event loop runs. */
export function request(worker: Worker, asked: HttpRequest, answered: (answer: HttpAnswer) => void): void {
  worker.process.receive(() => {
    if (!worker.server) return;
    const headers: Record<string, string> = { host: 'hotels', 'x-api-key': asked.key };
    const body = asked.body === undefined ? undefined : Buffer.from(asked.body);
    if (body) headers['content-length'] = String(body.length);
    let onData: ((chunk: ArrayBuffer, isLast: boolean) => void) | undefined;
    let head = '';
    const end = (bytes: Uint8Array = new Uint8Array()) =>
      answered({ status: Number(head.slice(0, 3)), body: Buffer.from(bytes).toString() });
    const response = {
      onAborted: () => {},
      onData: (take: typeof onData) => {
        onData = take;
      },
      cork: (write: () => void) => write(),
      writeStatus: (bytes: Uint8Array) => {
        head = Buffer.from(bytes).toString('latin1');
        return response;
      },
      end,
      endWithoutBody: () => end(),
      tryEnd: (bytes: Uint8Array) => {
        end(bytes);
        return [true, true];
      },
      getWriteOffset: () => 0,
      onWritable: () => {},
      close: () => {},
    };
    handlerOf(worker.server, asked.route)(response, {
      getQuery: () => asked.query ?? '',
      getParameter: () => asked.parameter ?? '',
      getMethod: () => (body ? 'post' : 'get'),
      getCaseSensitiveMethod: () => (body ? 'POST' : 'GET'),
      forEach: (take: (name: string, value: string) => void) => {
        for (const [name, value] of Object.entries(headers)) take(name, value);
      },
    });
    if (body) onData?.(new Uint8Array(body).buffer, true);
  });
}
