import { connect, type Socket } from 'node:net';

interface RawResponse {
  status: number;
  head: string;
  body: string;
}

/** Connection that writes any bytes, and reads responses in order by their content-length. */
export class RawConnection {
  readonly #socket: Socket;
  #chunks: Buffer[] = [];
  #arrived = Promise.withResolvers<void>();
  readonly closed: Promise<void>;

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.on('data', (chunk) => {
      this.#chunks.push(chunk);
      this.#arrived.resolve();
    });
    this.#socket.on('error', () => {});
    const closing = new Promise((resolve) => this.#socket.once('close', resolve));
    this.closed = closing.then(() => this.#arrived.resolve());
  }

  get isClosed(): boolean {
    return this.#socket.destroyed;
  }

  /** Returns the bytes that were received and not read, as text. */
  get unread(): string {
    return this.#bytes().toString('latin1');
  }

  /** Writes; resolves when the kernel has the bytes, or the connection is closed. */
  write(bytes: Buffer | string): Promise<void> {
    return new Promise((resolve) => {
      const written = () => resolve();
      if (typeof bytes === 'string') this.#socket.write(bytes, 'latin1', written);
      else this.#socket.write(bytes, written);
    });
  }

  /** Reads the next response; undefined if the connection closes before it is complete. */
  async read(): Promise<RawResponse | undefined> {
    for (;;) {
      const bytes = this.#bytes();
      const end = bytes.indexOf('\r\n\r\n');
      const head = end < 0 ? '' : bytes.toString('latin1', 0, end);
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1]);
      if (end >= 0 && bytes.length >= end + 4 + length) {
        const body = bytes.toString('utf8', end + 4, end + 4 + length);
        this.#chunks = [bytes.subarray(end + 4 + length)];
        return { status: Number(head.slice(9, 12)), head, body };
      }
      if (this.isClosed) return undefined;
      await this.arrival();
    }
  }

  /** Resolves when further bytes have arrived, or the connection is closed. */
  async arrival(): Promise<void> {
    if (this.isClosed) return;
    this.#arrived = Promise.withResolvers();
    await this.#arrived.promise;
  }

  /** Resolves when nothing has arrived for so long, or the connection is closed. */
  silence(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#socket.setTimeout(ms, resolve);
      void this.closed.then(resolve);
    });
  }

  /** Writes a byte a second until the connection is closed. */
  dribble(byte: string): void {
    const timer = setInterval(() => this.#socket.write(byte), 1_000);
    void this.closed.then(() => clearInterval(timer));
  }

  /** Disconnects with a reset. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  /** Stops and resumes reading from the kernel's buffer. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  close(): void {
    this.#socket.destroy();
  }

  #bytes(): Buffer {
    this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0]!;
  }
}

/** Sends bytes on a connection of its own. Returns all that is received until the other side closes it. */
export async function exchange(port: number, bytes: Buffer | string): Promise<string> {
  const connection = new RawConnection(port);
  void connection.write(bytes);
  await connection.closed;
  return connection.unread;
}
