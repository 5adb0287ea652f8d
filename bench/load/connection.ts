import type { Call } from './call.ts';
import { HttpConnection, type ResponseHandler } from './http-connection.ts';

/** Receives the connection and the description of the fault; undefined for the expected response. */
type OnDone = (connection: Connection, fault: string | undefined) => void;

/**
 * Keep-alive connection that sends one request at a time and checks the status and the length of each response. It keeps
 * nothing of the body unless `body` is set.
 */
export class Connection implements ResponseHandler {
  readonly #http: HttpConnection;
  readonly #onDone: OnDone;
  #call: Call | undefined;
  #fault: string | undefined;
  /** time at which the request in flight was due (`performance.now()`), set by the caller */
  dueAtMs = 0;
  /** parts of the body are added, if the caller sets an array */
  body: Buffer[] | undefined;
  /** of the last response */
  headBytes = 0;

  private constructor(port: number, onDone: OnDone) {
    this.#http = new HttpConnection({ port }, this);
    this.#onDone = onDone;
  }

  /** Connects to a port of the loopback. `onDone` is called for each response, and if the connection closes before it. */
  static async open(port: number, onDone: OnDone): Promise<Connection> {
    const connection = new Connection(port, onDone);
    await connection.#http.connected();
    return connection;
  }

  send(call: Call): void {
    this.#call = call;
    if (this.#http.isClosed) queueMicrotask(() => this.onClose());
    else this.#http.send(call.bytes);
  }

  close(): void {
    this.#http.close();
  }

  onHead(status: number, head: string, bodyBytes: number): void {
    const call = this.#call;
    this.headBytes = head.length + 4;
    this.#fault = undefined;
    if (!call) this.#fault = 'a response without a request';
    else if (status !== call.status) this.#fault = `status ${status} instead of ${call.status}`;
    else if (!call.mayBeCompressed && bodyBytes !== call.bodyBytes)
      this.#fault = `${bodyBytes} bytes instead of ${call.bodyBytes}`;
  }

  onBody(part: Buffer): void {
    this.body?.push(Buffer.from(part));
  }

  onEnd(surplusBytes: number): void {
    this.#call = undefined;
    this.#onDone(this, surplusBytes > 0 ? 'more bytes than content-length' : this.#fault);
  }

  onClose(): void {
    if (!this.#call) return;
    this.#call = undefined;
    this.#onDone(this, 'the connection was closed');
  }
}

/** Sends one request and returns the response; throws its fault. */
export async function sendOnce(port: number, call: Call): Promise<{ headBytes: number; body: Buffer }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ headBytes: number; body: Buffer }>();
  const connection = await Connection.open(port, ({ headBytes, body }, fault) => {
    if (fault) reject(new Error(fault));
    else resolve({ headBytes, body: Buffer.concat(body!) });
  });
  connection.body = [];
  connection.send(call);
  try {
    return await promise;
  } finally {
    connection.close();
  }
}
