import type { HotelReader } from '../cache/hotel-reader.ts';
import { MAX_JOINED } from '../cache/load-batcher.ts';
import type { PartialResponse } from '../cache/partial-response.ts';
import type { Collections } from '../collections/collections.ts';
import { Unavailable } from '../errors.ts';
import type { Found } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs, nextIteration } from '../lib/clock.ts';
import { HeldBytes } from '../lib/held-bytes.ts';
import { Turns } from '../lib/turns.ts';
import { type AccessControl, mayStillSee } from './access-control.ts';
import type { Exchange } from './exchange.ts';

/** Bytes of hotels that are read in one iteration of the event loop. */
const PART_BYTES = 2 * 1024 * 1024;
/** Number of hotels of the maximum size, 64 KiB, that `PART_BYTES` hold. */
const MIN_PART = 32;
/** Maximum time of a batch, its wait included. */
const MAX_MS = 5_000;
/** Maximum number of batches that a new one may wait for, those of other keys by their shares. */
const MAX_BEFORE = 16;
/** Maximum number of bytes of hits that waiting batches hold: in all, and of one key. */
const MAX_HITS_BYTES = 128 * 1024 * 1024;
const MAX_HITS_BYTES_OF_KEY = MAX_HITS_BYTES / 2;

interface LargeBatchesOptions {
  reader: HotelReader;
  collections: Collections;
  access: Pick<AccessControl, 'mayStillAnswer'>;
}

/**
 * Reads batches whose hotels are too large to be read at once. A worker reads one of them at a time, in parts, each in an
 * iteration of the event loop of its own, so it holds the hotels of one unfinished batch. API keys take turns.
 */
export class LargeBatches {
  readonly #options: LargeBatchesOptions;
  readonly #turns = new Turns(1, 1, 1);
  /** of the hits of the batches that wait */
  readonly #hits = new HeldBytes<Exchange>();

  constructor(options: LargeBatchesOptions) {
    this.#options = options;
  }

  /**
   * Returns the missing hotels of the response that the request's key may see, else null; undefined if the request is over or
   * answered, because its key was revoked meanwhile. Throws `Unavailable`.
   */
  async load(
    exchange: Exchange,
    namespace: Namespace,
    { keys, hitsBytes }: Pick<PartialResponse, 'keys' | 'hitsBytes'>,
  ): Promise<Found[] | undefined> {
    const untilMs = monotonicMs() + MAX_MS;
    // it loads in its turn, and small batches need not wait for it
    exchange.releaseLoad?.();
    const { owner } = exchange;
    if (this.#turns.mustWait) {
      if (this.#turns.waiting.sizeBefore(owner) >= MAX_BEFORE) throw tooLate();
      this.#hold(exchange, hitsBytes);
    }
    const before = exchange.principal!;
    const found = await this.#turns.run(owner, 1, () => {
      this.#hits.delete(exchange);
      return this.#read(exchange, namespace, keys, untilMs);
    });
    if (!found || before.collection === null) return found;
    // members may have left since their part was read
    const members = await this.#options.collections.onlyMembers(before.collection, found, owner);
    return (await mayStillSee(this.#options.access, exchange, before)) ? members : undefined;
  }

  /**
   * Loads the missing hotels of a response whose lookup waits for others of large hotels. What it has found is held meanwhile,
   * and nothing that other keys need. Throws `Unavailable`.
   */
  async loadApart(exchange: Exchange, hitsBytes: number, load: () => Promise<Found[]>): Promise<Found[]> {
    exchange.releaseLoad?.();
    this.#hold(exchange, hitsBytes);
    try {
      return await load();
    } finally {
      this.#hits.delete(exchange);
    }
  }

  #hold(exchange: Exchange, hitsBytes: number): void {
    const { owner } = exchange;
    const isBeyond =
      this.#hits.total + hitsBytes > MAX_HITS_BYTES ||
      this.#hits.bytesOf(owner) + hitsBytes > MAX_HITS_BYTES_OF_KEY;
    if (isBeyond) throw tooLate();
    this.#hits.set(exchange, owner, hitsBytes);
  }

  async #read(
    exchange: Exchange,
    namespace: Namespace,
    keys: readonly string[],
    untilMs: number,
  ): Promise<Found[] | undefined> {
    const { reader, access } = this.#options;
    const before = exchange.principal!;
    const { keyId, collection } = before;
    const found: Found[] = [];
    let bytes = 0;
    for (let count = MIN_PART; ; ) {
      // a part that caches hold is read at once
      await nextIteration();
      if (exchange.over || !(await mayStillSee(access, exchange, before))) return undefined;
      if (monotonicMs() > untilMs)
        throw new Unavailable('a batch of large hotels took too long', { rejection: 'overload' });
      if (found.length === keys.length) break;
      const part = keys.slice(found.length, found.length + count);
      // they may wait for a slow client, and hold no memory of others
      for (const hotel of await reader.load(namespace, part, keyId, collection, false)) {
        found.push(hotel);
        bytes += hotel?.bytes.length ?? 0;
      }
      count = Math.max(MIN_PART, Math.min(MAX_JOINED, Math.floor((PART_BYTES * found.length) / bytes)));
    }
    return found;
  }
}

function tooLate(): Unavailable {
  return new Unavailable('more batches of large hotels wait than can be answered in time', {
    rejection: 'overload',
  });
}
