import { pace } from '../../bench/load/pace.ts';
import { Client, type HttpResponse } from '../support/client.ts';
import { hotelBody, unknownId } from './hotels.ts';
import { batchRequest, type Request, send } from './requests.ts';
import {
  KINDS,
  type Kind,
  type Mix,
  now,
  type Order,
  type Outcome,
  type Report,
  type Sample,
  USUAL_MIX,
} from './sample.ts';

/**
 * Process of the load generator. Requests are due at a fixed rate, independent of earlier responses, and latencies count
 * from the due time. Every response is compared byte by byte with the contract.
 */
const BATCH = 100;
const REPORT_EVERY_MS = 100;
const MAX_FAULTS = 5;
const UNAVAILABLE = '{"error":"Service unavailable"}';
const NOT_FOUND = Buffer.from('{"error":"Hotel not found"}');

let order: Extract<Order, { type: 'start' }>;
let client: Client;
/** stops the present mix */
let stop = (): void => {};
let cold = 0;
let unknown = 0;
let samples: Sample[] = [];
let faults: string[] = [];
let late: number[] = [];
const bodies = new Map<number, string>();
const REQUESTS: Record<Kind, () => CheckedRequest> = { single, batch, cold: fresh, unknown: absent };

process.on('message', (message: Order) => {
  switch (message.type) {
    case 'start':
      order = message;
      cold = order.warm;
      client = new Client(order.port, { full: order.key, narrow: '' });
      run(USUAL_MIX);
      setInterval(report, REPORT_EVERY_MS);
      break;
    case 'mix':
      run(message.mix);
      break;
    case 'stop':
      stop();
      client.close();
      report();
      announce({ type: 'stopped' });
      process.disconnect();
      process.exit(0);
  }
});
process.on('disconnect', () => process.exit(0));

function run(mix: Mix): void {
  stop();
  const rate = KINDS.reduce((sum, kind) => sum + mix[kind], 0);
  if (rate === 0) return;
  let isOver = false;
  stop = () => {
    isOver = true;
  };
  const credit: Mix = { single: 0, batch: 0, cold: 0, unknown: 0 };
  void pace(
    rate,
    () => isOver,
    (dueMs) => {
      late.push(performance.now() - dueMs);
      void check(pick(mix, credit, rate), performance.timeOrigin + dueMs);
    },
  );
}

/** Picks the kinds in the proportion of the mix. */
function pick(mix: Mix, credit: Mix, rate: number): Kind {
  let chosen: Kind = 'single';
  for (const kind of KINDS) {
    credit[kind] += mix[kind] / rate;
    if (credit[kind] > credit[chosen]) chosen = kind;
  }
  credit[chosen] -= 1;
  return chosen;
}

async function check(kind: Kind, dueMs: number): Promise<void> {
  const { request, status, body } = REQUESTS[kind]();
  const reply = await send(client, request);
  const tookMs = now() - dueMs;
  const outcome = outcomeOf(reply, status, body);
  if (outcome !== 'ok' && outcome !== 'unavailable' && faults.length < MAX_FAULTS)
    faults.push(`${kind}: ${typeof reply === 'string' ? reply : differenceOf(reply, body)}`);
  samples.push({ kind, outcome, dueMs, tookMs });
}

function outcomeOf(reply: HttpResponse | 'lost' | 'silent', status: number, body: Buffer): Outcome {
  if (typeof reply === 'string') return reply;
  if (reply.status === status && reply.body.equals(body)) return 'ok';
  const rejected = reply.status === 503 && /^\d+$/.test(reply.headers['retry-after'] ?? '');
  return rejected && reply.text === UNAVAILABLE ? 'unavailable' : 'wrong';
}

function differenceOf({ status, body }: HttpResponse, expected: Buffer): string {
  const at = body.findIndex((byte, i) => byte !== expected[i]);
  const start = Math.max(0, at - 20);
  return `${status}, ${body.length} bytes instead of ${expected.length}, from ${at}: ${body.toString('utf8', start, start + 120)}`;
}

interface CheckedRequest {
  request: Request;
  status: number;
  body: Buffer;
}

function single(): CheckedRequest {
  return one(random(order.warm));
}

function fresh(): CheckedRequest {
  const i = cold++;
  if (cold >= order.hotels) throw new Error(`all ${order.hotels} hotels were requested: configure more`);
  return one(i, false);
}

function absent(): CheckedRequest {
  const i = unknown++;
  const path = [unknownId(i), `channel/${unknownId(i)}`, `registry/${1_000_000_000 + i}`][i % 3];
  return { request: { path: `/hotels/${path}` }, status: 404, body: NOT_FOUND };
}

function one(i: number, kept = true): CheckedRequest {
  const path = [`chaos-${i}`, `channel/CH-${i}`, `registry/${500_000 + i}`][random(3)];
  return { request: { path: `/hotels/${path}` }, status: 200, body: Buffer.from(bodyOf(i, kept)) };
}

function batch(): CheckedRequest {
  const chosen = new Set<number>();
  while (chosen.size < Math.min(BATCH, order.warm)) chosen.add(random(order.warm));
  const numbers = [...chosen];
  return {
    request: batchRequest(random(2) === 0 ? 'channel' : 'registry', numbers),
    status: 200,
    body: Buffer.from(`[${numbers.map((i) => bodyOf(i)).join(',')}]`),
  };
}

function bodyOf(i: number, kept = true): string {
  const body = bodies.get(i) ?? hotelBody(i);
  if (kept) bodies.set(i, body);
  return body;
}

function random(below: number): number {
  return Math.floor(Math.random() * below);
}

function report(): void {
  announce({ type: 'samples', samples, faults, late, at: now() });
  samples = [];
  faults = [];
  late = [];
}

function announce(message: Report): void {
  if (process.connected) process.send!(message, () => {});
}
