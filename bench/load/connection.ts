import { connect, type Socket } from 'node:net';
import type { Call } from './call.ts';

/** Size of a read: a response of 1 MB takes four reads without allocation. */
const READ_BYTES = 262_144;
const HEAD_END = Buffer.from('\r\n\r\n');

/**
 * A keep-alive connection that sends one request at a time and checks the status and the length of each answer.
 * Made for load: it reads into one buffer of its own and keeps nothing of the body, unless told to.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #onDone: (connection: Connection, fault: string | undefined) => void;
  #call: Call | undefined;
  #head: Buffer[] = [];
  #status = 0;
  #bodyBytes = 0;
  #remaining = -1;
  /** time at which the request in flight was due (`performance.now()`), set by the caller */
  dueAtMs = 0;
  /** set to an empty array to be given the body in parts */
  body: Buffer[] | undefined;

  private constructor(socket: Socket, onDone: (connection: Connection, fault: string | undefined) => void) {
    this.#socket = socket;
    this.#onDone = onDone;
  }

  /** Connects to a port of the loopback. `onDone` is called for each answer, and when the connection breaks. */
  static async open(
    port: number,
    onDone: (connection: Connection, fault: string | undefined) => void,
  ): Promise<Connection> {
    let connection: Connection | undefined;
    const socket = connect({
      host: '127.0.0.1',
      port,
      noDelay: true,
      onread: {
        buffer: Buffer.allocUnsafe(READ_BYTES),
        callback: (bytes, buffer) => {
          connection!.#take(Buffer.from((buffer as Buffer).buffer, (buffer as Buffer).byteOffset, bytes));
          return true;
        },
      },
    });
    connection = new Connection(socket, onDone);
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    socket.on('error', () => {});
    socket.on('close', () => {
      if (connection.#call) connection.#finish('the connection was closed');
    });
    return connection;
  }

  send(call: Call): void {
    this.#call = call;
    this.#remaining = -1;
    if (this.#socket.destroyed) queueMicrotask(() => this.#finish('the connection was closed'));
    else this.#socket.write(call.bytes);
  }

  close(): void {
    this.#call = undefined;
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    if (this.#remaining >= 0) {
      this.#takeBody(chunk);
      return;
    }
    const bytes = this.#head.length === 0 ? chunk : Buffer.concat([...this.#head, chunk]);
    const end = bytes.indexOf(HEAD_END);
    if (end < 0) {
      this.#head = [Buffer.from(bytes)];
      return;
    }
    this.#head = [];
    const head = bytes.toString('latin1', 0, end);
    this.#status = Number(head.slice(9, 12));
    this.#bodyBytes = lengthIn(head);
    this.#remaining = this.#bodyBytes;
    this.#takeBody(bytes.subarray(end + HEAD_END.length));
  }

  #takeBody(chunk: Buffer): void {
    this.#remaining -= chunk.length;
    this.body?.push(Buffer.from(chunk));
    if (this.#remaining > 0) return;
    const call = this.#call!;
    let fault: string | undefined;
    if (this.#remaining < 0) fault = 'more bytes than content-length';
    else if (this.#status !== call.status) fault = `status ${this.#status} instead of ${call.status}`;
    else if (!call.mayBeCompressed && this.#bodyBytes !== call.bodyBytes)
      fault = `${this.#bodyBytes} bytes instead of ${call.bodyBytes}`;
    this.#finish(fault);
  }

  #finish(fault: string | undefined): void {
    this.#call = undefined;
    this.#onDone(this, fault);
  }
}

function lengthIn(head: string): number {
  const found = /\r\ncontent-length: *(\d+)/i.exec(head);
  if (!found) throw new Error(`a response without content-length: ${head}`);
  return Number(found[1]);
}

/** Sends one request and returns the body of the response; throws its fault. */
export async function ask(port: number, call: Call): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const connection = await Connection.open(port, ({ body }, fault) => {
    if (fault) reject(new Error(fault));
    else resolve(Buffer.concat(body!));
  });
  connection.body = [];
  connection.send(call);
  try {
    return await promise;
  } finally {
    connection.close();
  }
}

/** Returns the length of the head of a target's response to a call. */
export async function headBytesOf(port: number, call: Call): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const socket = connect({ host: '127.0.0.1', port });
  let received = Buffer.alloc(0);
  socket.on('error', reject).on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    const end = received.indexOf(HEAD_END);
    if (end >= 0) resolve(end + HEAD_END.length);
  });
  socket.write(call.bytes);
  try {
    return await promise;
  } finally {
    socket.destroy();
  }
}
