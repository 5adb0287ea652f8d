import { setTimeout as sleep } from 'node:timers/promises';
import { hashOf } from '../../src/auth/key.ts';
import type { Draw } from '../../src/cli/seed/draw.ts';
import { Client } from '../support/client.ts';
import type { Keys } from './key-changes.ts';
import { HOTELS } from './steps.ts';
import type { Exchange, ReadRequest } from './violations.ts';
import { channelId, hotelId, OTHER_CHANNELS, RARE_CHANNELS, registryId } from './writes.ts';

/** Time after which a request to a frozen service times out and its connection is closed. */
const TIMEOUT_MS = 15_000;
const ALL = [...Array(HOTELS).keys()];

/** Client of an instance with one connection; it sends requests one after the other. */
export class Reader {
  readonly #port: number;
  readonly #keys: Keys;
  readonly #draw: Draw;
  readonly #onExchange: (exchange: Exchange) => void;
  #client: Client;
  /** number of requests without any response */
  unanswered = 0;

  constructor(port: number, keys: Keys, draw: Draw, onExchange: (exchange: Exchange) => void) {
    this.#port = port;
    this.#keys = keys;
    this.#draw = draw;
    this.#onExchange = onExchange;
    this.#client = this.#connect();
  }

  /** Sends requests until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#client.close(), { once: true });
    while (!signal.aborted) {
      await this.send(this.#drawRequest(), this.#key());
      await sleep(this.#draw.between(5, 40));
    }
    this.#client.close();
  }

  /** Sends this request; returns the exchange, undefined without a response. */
  async send(request: ReadRequest, key: string): Promise<Exchange | undefined> {
    const { path, body } = requestOf(request);
    const sentMs = performance.now();
    const give = new AbortController();
    const late = sleep(TIMEOUT_MS, undefined, { signal: give.signal }).catch(() => {});
    const requesting = this.#client
      .request(path, { key, ...(body && { method: 'POST' }) }, body)
      .catch(() => undefined);
    const answer = await Promise.race([requesting, late]);
    give.abort();
    if (!answer) {
      this.unanswered++;
      this.#client.close();
      this.#client = this.#connect();
      return undefined;
    }
    const { status, text } = answer;
    const exchange = {
      request,
      key: hashOf(key),
      sentMs,
      receivedMs: performance.now(),
      status,
      body: text,
    };
    this.#onExchange(exchange);
    return exchange;
  }

  close(): void {
    this.#client.close();
  }

  #connect(): Client {
    return new Client(this.#port, this.#keys);
  }

  #key(): string {
    const draw = this.#draw.below(100);
    if (draw < 60) return this.#keys.full;
    if (draw < 75) return this.#keys.narrow;
    return draw < 98 ? this.#draw.pick(this.#keys.changing) : this.#keys.unknown;
  }

  #drawRequest(): ReadRequest {
    const draw = this.#draw.below(100);
    if (draw < 1) return { by: 'channels', ids: RARE_CHANNELS.filter(() => this.#draw.chance(0.02)) };
    if (draw < 30) return { by: 'channels', ids: ALL.map(channelId) };
    if (draw < 45) return { by: 'registries', ids: ALL.map((i) => String(registryId(i))) };
    if (draw < 60) return { by: 'list' };
    const i = this.#draw.below(HOTELS);
    if (draw < 75) return { by: 'hotel', id: hotelId(i) };
    return draw < 90 ? { by: 'channel', id: channelId(i) } : { by: 'registry', id: String(registryId(i)) };
  }
}

function requestOf(request: ReadRequest): { path: string; body?: Buffer } {
  if (request.by === 'list') return { path: '/hotels?limit=100' };
  if (request.by === 'hotel') return { path: `/hotels/${request.id}` };
  if ('id' in request) return { path: `/hotels/${request.by}/${request.id}` };
  const [namespace, field] =
    request.by === 'channels' ? ['channel', 'channel_ids'] : ['registry', 'registry_ids'];
  return {
    path: `/hotels/${namespace}/batch`,
    body: Buffer.from(JSON.stringify({ [field!]: request.ids })),
  };
}

/** Requests that store all other hotels in Redis. */
export const OTHERS: ReadRequest[] = [
  { by: 'channels', ids: RARE_CHANNELS },
  ...[0, 1_000, 2_000].map(
    (from): ReadRequest => ({
      by: 'channels',
      ids: OTHER_CHANNELS.slice(from, from + 1_000),
    }),
  ),
];

/** Requests that return all hotels. */
export const EVERYTHING: ReadRequest[] = [
  { by: 'list' },
  { by: 'channels', ids: RARE_CHANNELS },
  { by: 'channels', ids: ALL.map(channelId) },
  { by: 'registries', ids: ALL.map((i) => String(registryId(i))) },
  ...ALL.map((i): ReadRequest => ({ by: 'hotel', id: hotelId(i) })),
];
