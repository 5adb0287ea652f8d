import { connect, type Socket } from 'node:net';

/** Response as received. */
export interface Reply {
  status: number;
  head: string;
  body: Buffer;
}

/** Maximum number of idle connections, so that their idle time stays below the server's limit of 10 s. */
const KEPT_IDLE = 32;
const SILENT_MS = 10_000;
const HEAD_END = Buffer.from('\r\n\r\n');

/**
 * HTTP/1.1 connections to one port for a load generator: one request at a time on each, and a new connection whenever none
 * is idle, so that no request waits for another.
 */
export class Connections {
  readonly #port: number;
  readonly #idle: Connection[] = [];
  readonly #all = new Set<Connection>();

  constructor(port: number) {
    this.#port = port;
  }

  /** Resolves with the response, or with the kind of failure. */
  ask(request: Buffer | string): Promise<Reply | 'lost' | 'silent'> {
    const connection = this.#idle.shift() ?? this.#open();
    return connection.ask(request).then((reply) => {
      if (!connection.usable) this.#all.delete(connection);
      else if (this.#idle.length >= KEPT_IDLE) connection.end();
      else this.#idle.push(connection);
      return reply;
    });
  }

  close(): void {
    for (const connection of this.#all) connection.end();
  }

  #open(): Connection {
    const connection = new Connection(this.#port, () => {
      this.#all.delete(connection);
      const at = this.#idle.indexOf(connection);
      if (at >= 0) this.#idle.splice(at, 1);
    });
    this.#all.add(connection);
    return connection;
  }
}

class Connection {
  readonly #socket: Socket;
  usable = true;
  #answer: ((reply: Reply | 'lost' | 'silent') => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #chunks: Buffer[] = [];
  #received = 0;
  /** length of the response including its head; Infinity before the head is complete */
  #expected = Infinity;
  #headLength = 0;
  #head = '';

  constructor(port: number, onClose: () => void) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.on('data', (chunk) => this.#take(chunk));
    this.#socket.on('error', () => {});
    this.#socket.on('close', () => {
      this.usable = false;
      onClose();
      this.#finish('lost');
    });
  }

  ask(request: Buffer | string): Promise<Reply | 'lost' | 'silent'> {
    return new Promise((resolve) => {
      this.#answer = resolve;
      this.#timer = setTimeout(() => {
        this.usable = false;
        this.#finish('silent');
        this.#socket.destroy();
      }, SILENT_MS);
      this.#socket.write(request);
    });
  }

  end(): void {
    this.usable = false;
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#received += chunk.length;
    if (this.#expected === Infinity) {
      const bytes = Buffer.concat(this.#chunks);
      this.#chunks = [bytes];
      const end = bytes.indexOf(HEAD_END);
      if (end < 0) return;
      this.#headLength = end + HEAD_END.length;
      this.#head = bytes.toString('latin1', 0, end);
      const length = /\r\ncontent-length: (\d+)/i.exec(this.#head)?.[1];
      this.#expected = this.#headLength + Number(length ?? 0);
    }
    if (this.#received < this.#expected) return;
    const bytes = Buffer.concat(this.#chunks);
    const reply = {
      status: Number(this.#head.slice(9, 12)),
      head: this.#head,
      body: bytes.subarray(this.#headLength),
    };
    if (/\r\nconnection: close/i.test(this.#head)) this.end();
    this.#chunks = [];
    this.#received = 0;
    this.#expected = Infinity;
    this.#finish(reply);
  }

  #finish(reply: Reply | 'lost' | 'silent'): void {
    clearTimeout(this.#timer);
    const answer = this.#answer;
    this.#answer = undefined;
    answer?.(reply);
  }
}
