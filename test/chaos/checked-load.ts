import { setTimeout as sleep } from 'node:timers/promises';
import { type Address, HttpConnection, type ResponseHandler } from '../../bench/load/http-connection.ts';
import { pace } from '../../bench/load/pace.ts';

export interface Request {
  bytes: Buffer;
  /** exact body of the response with status 200 */
  body: Buffer;
}

/** Results of requests; times in ms from when they were due. */
export interface LoadResult {
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

const RESPONSE_TIMEOUT_MS = 10_000;
/** Connections at the start; more are opened whenever none is idle. */
const CONNECTIONS = 64;
const REJECTION = Buffer.from('{"error":"Service unavailable"}');

type Outcome = 'accepted' | 'rejected' | (string & {});

/** Connection with one request at a time; bytes are compared as they arrive, without buffering. */
class CheckedConnection implements ResponseHandler {
  readonly #http: HttpConnection;
  readonly #onDone: (connection: CheckedConnection, outcome: Outcome) => void;
  #request: Request | undefined;
  #expected: Buffer = REJECTION;
  #at = 0;
  #outcome: Outcome = '';
  dueMs = 0;

  constructor(to: Address, onDone: (connection: CheckedConnection, outcome: Outcome) => void) {
    this.#onDone = onDone;
    this.#http = new HttpConnection(to, this);
  }

  get isUsable(): boolean {
    return !this.#http.isClosed;
  }

  send(request: Request, dueMs: number): void {
    this.#request = request;
    this.dueMs = dueMs;
    this.#http.send(request.bytes);
  }

  close(): void {
    this.#http.close();
  }

  onHead(status: number, head: string, bodyBytes: number): void {
    this.#at = 0;
    this.#expected = status === 200 ? this.#request!.body : REJECTION;
    this.#outcome = status === 200 ? 'accepted' : 'rejected';
    if (status !== 200 && status !== 503) this.#outcome = `status ${status}`;
    else if (status === 503 && !/\r\nretry-after: \d+/i.test(head)) this.#outcome = '503 without Retry-After';
    else if (/\r\nconnection: close/i.test(head)) this.#outcome = `${status} with Connection: close`;
    if (bodyBytes !== this.#expected.length)
      this.#outcome = `status ${status} with ${bodyBytes} bytes instead of ${this.#expected.length}`;
  }

  onBody(part: Buffer): void {
    const expected = this.#expected.subarray(this.#at, this.#at + part.length);
    if (!expected.equals(part) && /^(accepted|rejected)$/.test(this.#outcome)) this.#outcome = 'other bytes';
    this.#at += part.length;
  }

  onEnd(): void {
    this.#request = undefined;
    this.#onDone(this, this.#outcome);
  }

  onClose(): void {
    if (!this.#request) return;
    this.#request = undefined;
    this.#onDone(this, 'the connection was closed');
  }
}

function emptyResult(): LoadResult {
  return { seconds: 0, sent: 0, acceptedMs: [], rejectedMs: [], faults: [], lateMs: 0 };
}

function add(result: LoadResult, { dueMs }: CheckedConnection, outcome: Outcome): void {
  const tookMs = performance.now() - dueMs;
  if (outcome === 'accepted') result.acceptedMs.push(tookMs);
  else if (outcome === 'rejected') result.rejectedMs.push(tookMs);
  else result.faults.push(outcome);
}

/**
 * Sends requests at a fixed rate, independent of earlier responses. A connection is opened whenever none is idle, and kept,
 * also after a rejection.
 */
export async function openLoop(
  to: Address,
  requests: readonly Request[],
  options: { perSecond: number; seconds: number },
): Promise<LoadResult> {
  const result = emptyResult();
  const idle: CheckedConnection[] = [];
  const all = new Set<CheckedConnection>();
  let pending = 0;
  const open = () => {
    const connection = new CheckedConnection(to, (_, outcome) => {
      pending--;
      add(result, connection, outcome);
      if (connection.isUsable) idle.push(connection);
      else all.delete(connection);
    });
    all.add(connection);
    return connection;
  };
  for (let i = 0; i < CONNECTIONS; i++) idle.push(open());
  const total = Math.floor(options.perSecond * options.seconds);
  const beganMs = performance.now();
  await pace(
    options.perSecond,
    (sent) => sent === total,
    (dueMs) => {
      result.lateMs = Math.max(result.lateMs, performance.now() - dueMs);
      // in order: a connection idle for long writes more slowly, and all should be alike
      let connection = idle.shift();
      while (connection && !connection.isUsable) connection = idle.shift();
      connection ??= open();
      pending++;
      connection.send(requests[result.sent++ % requests.length]!, dueMs);
    },
  );
  result.seconds = (performance.now() - beganMs) / 1_000;
  const untilMs = performance.now() + RESPONSE_TIMEOUT_MS;
  while (pending > 0 && performance.now() < untilMs) await sleep(2);
  if (pending > 0)
    result.faults.push(`${pending} requests without a response after ${RESPONSE_TIMEOUT_MS} ms`);
  for (const connection of all) connection.close();
  return result;
}

/** Sends the next request on each of `connections` after the response to the last, for `seconds`. */
export async function closedLoop(
  to: Address,
  requests: readonly Request[],
  options: { connections: number; seconds: number },
): Promise<LoadResult> {
  const result = emptyResult();
  const beganMs = performance.now();
  const untilMs = beganMs + 1_000 * options.seconds;
  const { promise: over, resolve } = Promise.withResolvers<void>();
  let open = options.connections;
  const send = (connection: CheckedConnection) =>
    connection.send(requests[result.sent++ % requests.length]!, performance.now());
  const onDone = (connection: CheckedConnection, outcome: Outcome) => {
    add(result, connection, outcome);
    if (performance.now() < untilMs && connection.isUsable) send(connection);
    else {
      connection.close();
      if (--open === 0) resolve();
    }
  };
  for (let i = 0; i < options.connections; i++) send(new CheckedConnection(to, onDone));
  await over;
  result.seconds = (performance.now() - beganMs) / 1_000;
  return result;
}
