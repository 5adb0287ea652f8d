import { connect, type Socket } from 'node:net';

export interface Address {
  /** default: 127.0.0.1 */
  host?: string;
  port: number;
}

/** Receives the responses of a connection, in the order of the requests. */
export interface ResponseHandler {
  onHead(status: number, head: string, bodyBytes: number): void;
  /** Takes a part of the body, whose bytes are valid during the call only. */
  onBody?(part: Buffer): void;
  /** Is called at the end of a response; `surplusBytes` were received behind it already. */
  onEnd(surplusBytes: number): void;
  /** Is called once, unless `close` was called. */
  onClose(): void;
}

/** Buffer shared by all connections, which parse it synchronously: a response of 1 MB takes four reads without allocation. */
const received = Buffer.allocUnsafeSlow(262_144);
const HEAD_END = Buffer.from('\r\n\r\n');
const NOTHING = Buffer.alloc(0);

/**
 * HTTP/1.1 connection for load: it sends requests as bytes, pipelined if the caller wishes, and separates the responses by
 * their content-length. It stores no body. The benchmarks send their load through it, or by wrk or autocannon.
 */
export class HttpConnection {
  readonly #socket: Socket;
  readonly #handler: ResponseHandler;
  /** incomplete head */
  #head: Buffer = NOTHING;
  /** missing bytes of the body; -1: a head is due */
  #remaining = -1;

  constructor({ host = '127.0.0.1', port }: Address, handler: ResponseHandler) {
    this.#handler = handler;
    this.#socket = connect({
      host,
      port,
      noDelay: true,
      onread: {
        buffer: received,
        callback: (count, buffer) => {
          this.#take((buffer as Buffer).subarray(0, count));
          return true;
        },
      },
    });
    this.#socket.on('error', () => {});
    this.#socket.once('close', () => this.#handler.onClose());
  }

  /** Resolves when the connection is established; rejects if that fails. */
  connected(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#socket.once('connect', resolve).once('error', reject);
    return promise;
  }

  get isClosed(): boolean {
    return this.#socket.destroyed;
  }

  /** Number of bytes that the kernel has not yet accepted. */
  get unsentBytes(): number {
    return this.#socket.writableLength;
  }

  send(bytes: Buffer | string): void {
    this.#socket.write(bytes);
  }

  close(): void {
    this.#socket.removeAllListeners('close').destroy();
  }

  #take(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0 && !this.isClosed) {
      if (this.#remaining < 0) {
        const bytes = this.#head.length === 0 ? rest : Buffer.concat([this.#head, rest]);
        const end = bytes.indexOf(HEAD_END);
        if (end < 0) {
          // a copy, because the next read overwrites the buffer
          this.#head = Buffer.from(bytes);
          return;
        }
        this.#head = NOTHING;
        const head = bytes.toString('latin1', 0, end);
        this.#remaining = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
        this.#handler.onHead(Number(head.slice(9, 12)), head, this.#remaining);
        rest = bytes.subarray(end + HEAD_END.length);
      }
      const part = rest.subarray(0, this.#remaining);
      rest = rest.subarray(part.length);
      this.#remaining -= part.length;
      if (part.length > 0) this.#handler.onBody?.(part);
      if (this.#remaining > 0) return;
      this.#remaining = -1;
      this.#handler.onEnd(rest.length);
    }
  }
}
