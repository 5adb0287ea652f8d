import type { Server, Worker } from './instance.ts';

/** Request as the handlers of the service read it. */
export interface HttpRequest {
  route:
    | 'list'
    | 'changes'
    | 'hotel'
    | 'hotelByChannel'
    | 'hotelByRegistry'
    | 'batchByChannel'
    | 'batchByRegistry';
  parameter?: string;
  query?: string;
  body?: string;
  key: string;
}

export interface HttpAnswer {
  status: number;
  body: string;
}

type Handler = (response: object, request: object) => void;

const handlersOf = new WeakMap<Server, Record<string, Handler>>();

function handlers(server: Server): Record<string, Handler> {
  let made = handlersOf.get(server);
  if (made) return made;
  const { operations: all, pipeline } = server;
  made = {
    list: pipeline.get(all.list, 'GET') as never,
    changes: pipeline.get(all.changes, 'GET') as never,
    hotel: pipeline.get(all.hotel, 'GET') as never,
    hotelByChannel: pipeline.get(all.hotelByChannel, 'GET') as never,
    hotelByRegistry: pipeline.get(all.hotelByRegistry, 'GET') as never,
    batchByChannel: pipeline.post(all.batchByChannel) as never,
    batchByRegistry: pipeline.post(all.batchByRegistry) as never,
  };
  handlersOf.set(server, made);
  return made;
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
    const end = (bytes?: Uint8Array) => {
      answered({ status: Number(head.slice(0, 3)), body: bytes ? Buffer.from(bytes).toString() : '' });
    };
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
    handlers(worker.server)[asked.route]!(response, {
      getQuery: () => asked.query ?? '',
      getParameter: () => asked.parameter ?? '',
      getMethod: () => (body ? 'post' : 'get'),
      getCaseSensitiveMethod: () => (body ? 'POST' : 'GET'),
      getUrl: () => '/',
      forEach: (take: (name: string, value: string) => void) => {
        for (const [name, value] of Object.entries(headers)) take(name, value);
      },
    });
    if (body) onData?.(new Uint8Array(body).buffer, true);
  });
}
