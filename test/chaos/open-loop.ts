import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Address {
  host: string;
  port: number;
}

export interface Request {
  bytes: Buffer;
  /** exact body of the response with status 200 */
  body: Buffer;
}

/** Results of requests; times in ms from when they were due. */
export interface LoopResult {
  seconds: number;
  sent: number;
  /** of the expected responses */
  acceptedMs: number[];
  /** of the rejections: 503 in the contract's form */
  rejectedMs: number[];
  /** descriptions of all other results */
  faults: string[];
  /** maximum delay of sending: the part of this process in the delays */
  lateMs: number;
}

/** Buffer shared by all connections, which read it synchronously. */
const received = Buffer.allocUnsafeSlow(262_144);
const SILENT_MS = 10_000;
/** Connections at the start; more are opened whenever none is idle. */
const CONNECTIONS = 64;
const REJECTION = Buffer.from('{"error":"Service unavailable"}');

/** Receives 'accepted', 'refused' or a fault. */
type OnDone = (connection: Connection, outcome: string) => void;

/** Connection with one request at a time; bytes are compared as they arrive, without buffering. */
class Connection {
  readonly #socket: Socket;
  readonly #onDone: OnDone;
  #request: Request | undefined;
  #head: Buffer = Buffer.alloc(0);
  #expected: Buffer = REJECTION;
  #at = -1;
  #outcome = '';
  dueMs = 0;
  usable = true;

  constructor({ host, port }: Address, onDone: OnDone) {
    this.#onDone = onDone;
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
    this.#socket.on('close', () => {
      this.usable = false;
      if (this.#request) this.#finish('the connection was closed');
    });
  }

  send(request: Request, dueMs: number): void {
    this.#request = request;
    this.dueMs = dueMs;
    this.#at = -1;
    this.#head = Buffer.alloc(0);
    this.#socket.write(request.bytes);
  }

  end(): void {
    this.#request = undefined;
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    if (this.#at >= 0) {
      this.#takeBody(chunk);
      return;
    }
    // a copy, because the next chunk overwrites the buffer
    const bytes = Buffer.concat([this.#head, chunk]);
    const end = bytes.indexOf('\r\n\r\n');
    if (end < 0) {
      this.#head = bytes;
      return;
    }
    const head = bytes.toString('latin1', 0, end);
    this.#judge(head);
    this.#at = 0;
    this.#takeBody(bytes.subarray(end + 4));
  }

  #judge(head: string): void {
    const status = Number(head.slice(9, 12));
    this.#expected = status === 200 ? this.#request!.body : REJECTION;
    this.#outcome = status === 200 ? 'accepted' : 'rejected';
    if (status !== 200 && status !== 503) this.#outcome = `status ${status}`;
    else if (status === 503 && !/\r\nretry-after: \d+/i.test(head)) this.#outcome = '503 without Retry-After';
    else if (/\r\nconnection: close/i.test(head)) this.#outcome = `${status} with Connection: close`;
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1]);
    if (length !== this.#expected.length) {
      this.#outcome = `status ${status} with ${length} bytes instead of ${this.#expected.length}`;
      this.#expected = Buffer.alloc(length);
    }
  }

  #takeBody(chunk: Buffer): void {
    const part = this.#expected.subarray(this.#at, this.#at + chunk.length);
    if (!part.equals(chunk) && /^(accepted|rejected)$/.test(this.#outcome)) this.#outcome = 'other bytes';
    this.#at += chunk.length;
    if (this.#at >= this.#expected.length) this.#finish(this.#outcome);
  }

  #finish(outcome: string): void {
    this.#request = undefined;
    this.#onDone(this, outcome);
  }
}

/**
 * Sends requests at a fixed rate, independent of earlier responses. A connection is opened whenever none is idle, and kept,
 * also after a rejection.
 */
export async function openLoop(
  to: Address,
  requests: readonly Request[],
  options: { perSecond: number; seconds: number },
): Promise<LoopResult> {
  const result: LoopResult = { seconds: 0, sent: 0, acceptedMs: [], rejectedMs: [], faults: [], lateMs: 0 };
  const idle: Connection[] = [];
  const all = new Set<Connection>();
  let waiting = 0;
  const done = (connection: Connection, outcome: string) => {
    waiting--;
    const tookMs = performance.now() - connection.dueMs;
    if (outcome === 'accepted') result.acceptedMs.push(tookMs);
    else if (outcome === 'rejected') result.rejectedMs.push(tookMs);
    else result.faults.push(outcome);
    if (connection.usable) idle.push(connection);
    else all.delete(connection);
  };
  for (let i = 0; i < CONNECTIONS; i++) {
    const connection = new Connection(to, done);
    all.add(connection);
    idle.push(connection);
  }
  const beganMs = performance.now();
  const total = Math.floor(options.perSecond * options.seconds);
  while (result.sent < total) {
    const nowMs = performance.now();
    for (; result.sent < total; result.sent++) {
      const dueMs = beganMs + (1_000 * result.sent) / options.perSecond;
      if (dueMs > nowMs) break;
      result.lateMs = Math.max(result.lateMs, nowMs - dueMs);
      // in turn: a connection idle for long writes more slowly, and all should be alike
      let connection = idle.shift();
      while (connection && !connection.usable) connection = idle.shift();
      connection ??= new Connection(to, done);
      all.add(connection);
      waiting++;
      connection.send(requests[result.sent % requests.length]!, dueMs);
    }
    await sleep(1);
  }
  result.seconds = (performance.now() - beganMs) / 1_000;
  const untilMs = performance.now() + SILENT_MS;
  while (waiting > 0 && performance.now() < untilMs) await sleep(2);
  if (waiting > 0) result.faults.push(`${waiting} requests without a response after ${SILENT_MS} ms`);
  for (const connection of all) connection.end();
  return result;
}

/** Sends the next request on each of `connections` after the response to the last, for `seconds`. */
export async function closedLoop(
  to: Address,
  requests: readonly Request[],
  options: { connections: number; seconds: number },
): Promise<LoopResult> {
  const result: LoopResult = { seconds: 0, sent: 0, acceptedMs: [], rejectedMs: [], faults: [], lateMs: 0 };
  const beganMs = performance.now();
  const untilMs = beganMs + 1_000 * options.seconds;
  const { promise: over, resolve } = Promise.withResolvers<void>();
  let open = options.connections;
  const ask = (connection: Connection) =>
    connection.send(requests[result.sent++ % requests.length]!, performance.now());
  const done = (connection: Connection, outcome: string) => {
    const tookMs = performance.now() - connection.dueMs;
    if (outcome === 'accepted') result.acceptedMs.push(tookMs);
    else if (outcome === 'rejected') result.rejectedMs.push(tookMs);
    else result.faults.push(outcome);
    if (performance.now() < untilMs && connection.usable) ask(connection);
    else {
      connection.end();
      if (--open === 0) resolve();
    }
  };
  for (let i = 0; i < options.connections; i++) ask(new Connection(to, done));
  await over;
  result.seconds = (performance.now() - beganMs) / 1_000;
  return result;
}

/** Returns the value below which this share of the values lies; 0 without any. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}
