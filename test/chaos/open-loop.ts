import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Address {
  host: string;
  port: number;
}

export interface Request {
  bytes: Buffer;
  /** of the answer with status 200, exactly */
  body: Buffer;
}

/** What became of requests; times in ms from when they were due. */
export interface LoopResult {
  seconds: number;
  sent: number;
  /** of the answers as they must be */
  acceptedMs: number[];
  /** of the refusals: 503 in the contract's form */
  rejectedMs: number[];
  /** all others, in words */
  faults: string[];
  /** how late requests were sent at worst: what this process, and not the service, was slow by */
  lateMs: number;
}

/** Of all connections: each looks at what came at once. */
const received = Buffer.allocUnsafeSlow(262_144);
const SILENT_MS = 10_000;
/** At the start; more are opened whenever none is idle. */
const CONNECTIONS = 64;
const REJECTION = Buffer.from('{"error":"Service unavailable"}');

/** Told of 'accepted', 'refused', or what was wrong. */
type OnDone = (connection: Connection, outcome: string) => void;

/** One request at a time; what comes is compared as it comes, and nothing of it is kept: 1 MB of answer is cheap. */
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
    // a copy: the next chunk comes to the same place
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
    this.#outcome = status === 200 ? 'accepted' : 'refused';
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
    if (!part.equals(chunk) && /^(accepted|refused)$/.test(this.#outcome)) this.#outcome = 'other bytes';
    this.#at += chunk.length;
    if (this.#at >= this.#expected.length) this.#finish(this.#outcome);
  }

  #finish(outcome: string): void {
    this.#request = undefined;
    this.#onDone(this, outcome);
  }
}

/**
 * Requests at a fixed rate, whatever became of those before; a connection is opened whenever none is idle, and kept,
 * also by those who were refused.
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
    else if (outcome === 'refused') result.rejectedMs.push(tookMs);
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
      // in turns: one that was long idle writes more slowly, and so all shall be alike at every rate
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
  if (waiting > 0) result.faults.push(`${waiting} requests without an answer after ${SILENT_MS} ms`);
  for (const connection of all) connection.end();
  return result;
}

/** Each of `connections` asks again as soon as it has its answer, for `seconds`. */
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
    else if (outcome === 'refused') result.rejectedMs.push(tookMs);
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

/** The value below which this share of the values lies; 0 without any. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}
