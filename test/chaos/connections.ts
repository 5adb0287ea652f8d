import { HttpConnection, type ResponseHandler } from '../../bench/load/http-connection.ts';

/** Response as received. */
export interface Reply {
  status: number;
  head: string;
  body: Buffer;
}

/** Maximum number of idle connections, so that their idle time stays below the server's limit of 10 s. */
const MAX_IDLE = 32;
const RESPONSE_TIMEOUT_MS = 10_000;

/**
 * HTTP/1.1 connections to one port for a load generator, with one request at a time on each. A new connection is opened
 * whenever none is idle, so no request waits for another.
 */
export class Connections {
  readonly #port: number;
  readonly #idle: Connection[] = [];
  readonly #all = new Set<Connection>();

  constructor(port: number) {
    this.#port = port;
  }

  /** Resolves with the response, or with the kind of failure. */
  send(request: Buffer | string): Promise<Reply | 'lost' | 'silent'> {
    let connection = this.#idle.shift();
    while (connection && !connection.isUsable) connection = this.#idle.shift();
    connection ??= new Connection(this.#port);
    this.#all.add(connection);
    return connection.send(request).then((reply) => {
      if (connection.isUsable && this.#idle.length < MAX_IDLE) this.#idle.push(connection);
      else {
        connection.close();
        this.#all.delete(connection);
      }
      return reply;
    });
  }

  close(): void {
    for (const connection of this.#all) connection.close();
  }
}

class Connection implements ResponseHandler {
  readonly #http: HttpConnection;
  #answer: ((reply: Reply | 'lost' | 'silent') => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #status = 0;
  #head = '';
  #parts: Buffer[] = [];

  constructor(port: number) {
    this.#http = new HttpConnection({ port }, this);
  }

  get isUsable(): boolean {
    return !this.#http.isClosed;
  }

  send(request: Buffer | string): Promise<Reply | 'lost' | 'silent'> {
    return new Promise((resolve) => {
      this.#answer = resolve;
      this.#timer = setTimeout(() => {
        this.#http.close();
        this.#finish('silent');
      }, RESPONSE_TIMEOUT_MS);
      this.#http.send(request);
    });
  }

  close(): void {
    this.#http.close();
    this.#finish('lost');
  }

  onHead(status: number, head: string): void {
    this.#status = status;
    this.#head = head;
    this.#parts = [];
  }

  onBody(part: Buffer): void {
    this.#parts.push(Buffer.from(part));
  }

  onEnd(): void {
    if (/\r\nconnection: close/i.test(this.#head)) this.#http.close();
    this.#finish({ status: this.#status, head: this.#head, body: Buffer.concat(this.#parts) });
  }

  onClose(): void {
    this.#finish('lost');
  }

  #finish(reply: Reply | 'lost' | 'silent'): void {
    clearTimeout(this.#timer);
    const answer = this.#answer;
    this.#answer = undefined;
    answer?.(reply);
  }
}
