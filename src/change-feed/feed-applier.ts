import type { Keyring } from '../auth/api-key-cache.ts';
import type { SharedKeys } from '../auth/redis-key-cache.ts';
import type { Reader } from '../cache/hotel-reader.ts';
import type { LocalCache } from '../cache/local-cache.ts';
import type { RecentChanges } from '../cache/recent-changes.ts';
import type { Relay } from '../cache/redis-batch/redis-batch.ts';
import type { SharedCache } from '../cache/redis-hotel-cache.ts';
import { LETTER, type Namespace } from '../hotels/namespace.ts';
import type { Positions } from '../hotels/page-index.ts';
import type { Metrics } from '../observability/metrics.ts';
import { Confirmation } from './confirmation.ts';
import type { Link } from './feed-status.ts';
import { type FeedMessage, toldBy } from './messages.ts';

/** All that a worker remembers, and must forget. */
export interface Memory {
  hotelChanges: RecentChanges;
  keyChanges: RecentChanges;
  reader: Reader;
  local: LocalCache | undefined;
  relay: Relay | undefined;
  positions: Positions;
  keyring: Keyring;
  sharedHotels: SharedCache | undefined;
  sharedKeys: SharedKeys | undefined;
  link: Link;
  metrics: Metrics;
}

/** Applies what the change feed says to the memory of one worker. */
export class Follower {
  readonly #parts: Memory;
  readonly #confirmation = new Confirmation();

  constructor(parts: Memory) {
    this.#parts = parts;
  }

  /** `agoMs`: how long ago the instance heard it. */
  hear(message: FeedMessage, agoMs: number): void {
    const { link, keyring, reader, local, positions, keyChanges, hotelChanges } = this.#parts;
    link.heard(toldBy(message), agoMs);
    if (message.g !== '') this.useGeneration(message.g);
    const wasSilent = this.#confirmation.hear(message.b !== null);
    if (message.l || wasSilent) this.#doubtRedis();
    for (const [id, version, channelId, registryId] of message.h ?? []) {
      this.#changed('id', id, version);
      if (message.m) positions.moved(id);
      if (channelId !== null) this.#changed('channel', channelId, 0);
      if (registryId !== null) this.#changed('registry', registryId, 0);
    }
    for (const [sha256, version] of message.k ?? []) {
      keyChanges.note(sha256, version);
      keyring.drop(sha256, version);
    }
    if (message.t?.includes('hotels')) {
      hotelChanges.noteAll();
      reader.forgetAllLoads();
      local?.clear();
      positions.forget();
    }
    if (message.t?.includes('keys')) {
      keyChanges.noteAll();
      keyring.doubtAll();
    }
  }

  /** Messages may have been missed: nothing that is remembered is to be trusted while PostgreSQL can be asked. */
  reset(): void {
    const { link, hotelChanges, keyChanges, reader, local, positions, keyring, metrics } = this.#parts;
    link.broke();
    metrics.feedReset();
    hotelChanges.noteAll();
    keyChanges.noteAll();
    reader.forgetAllLoads();
    local?.distrust();
    positions.forget();
    keyring.doubtAll();
  }

  /** The wall clock was set, or the machine slept and does not know for how long: then messages may have been missed. */
  clockStepped(byMs: number): void {
    const { link, local } = this.#parts;
    if (byMs > 0) link.broke();
    // what has turned at a midnight that is yet to come
    else local?.distrust();
  }

  /** The database follows another history: nothing that is remembered is true there. */
  clear(generation: string): void {
    const { link, hotelChanges, keyChanges, reader, local, relay, positions, keyring } = this.#parts;
    link.broke();
    hotelChanges.clear();
    keyChanges.clear();
    reader.forgetAllLoads();
    local?.clear();
    relay?.forgetChanges();
    positions.forget();
    keyring.clear();
    this.useGeneration(generation);
  }

  /** Redis may have lost writes, so what was read there since it was last confirmed, or is being read, may be too old. */
  #doubtRedis(): void {
    const { hotelChanges, keyChanges, local, keyring, sharedHotels } = this.#parts;
    if (!sharedHotels) return;
    hotelChanges.noteAll();
    keyChanges.noteAll();
    local?.dropSharedSince(this.#confirmation.confirmedMs);
    keyring.doubtAll();
  }

  useGeneration(generation: string): void {
    this.#parts.sharedHotels?.useGeneration(generation);
    this.#parts.sharedKeys?.useGeneration(generation);
  }

  #changed(namespace: Namespace, key: string, version: number): void {
    this.#parts.hotelChanges.note(LETTER[namespace] + key, version);
    this.#parts.reader.forgetLoads(namespace, key);
    this.#parts.local?.drop(namespace, key);
    this.#parts.relay?.changed(namespace, key, version);
  }
}
