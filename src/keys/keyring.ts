import { setTimeout as wait } from 'node:timers/promises';
import { Unavailable } from '../errors.ts';
import type { View } from '../hotels/entry.ts';
import { DeadlineExceeded, withDeadline } from '../lifecycle.ts';
import type { RecentChanges } from '../recent-changes.ts';
import type { Postgres } from '../stores/postgres.ts';
import { hashOf, isWellFormed } from './key.ts';
import type { RateLimit } from './rate-limit.ts';
import { KEY_COLUMNS, type KeyRecord, type KeyRow, keyOf, type VersionedKey } from './record.ts';
import type { SharedKeys } from './shared.ts';

/** What the holder of a valid key may do. */
export interface Access {
  readonly keyId: string;
  readonly view: View;
  readonly expiresAtMs: number;
  /** null: it may ask as often as it likes */
  readonly limit: RateLimit | null;
}

interface Known {
  access: Access | null;
  sha256: string;
  checkedAtMs: number;
  /** changes may have been missed: it is asked for again before it is believed */
  doubted: boolean;
  /** who must ask had no answer: until then it is believed without */
  retryAtMs: number;
}

/** Is told of each look-up of a key by the tier that was asked; absent: the key is refused. */
type OnLookup = (tier: 'local' | 'redis' | 'postgres', answer: 'hit' | 'absent' | 'miss') => void;

/** Changes are heard of within a second; this only bounds what a lost one would do: then it is asked for in the background. */
const FRESH_MS = 30_000;
/** While the change feed is silent nothing older than this is believed without asking. */
const UNLINKED_FRESH_MS = 5_000;
/** How long who brings a key that is known waits for news of it; what is said later counts from then on. */
const PATIENCE_MS = 150;
/** While nobody can be asked, a key that is known is asked for this often. */
const RETRY_MS = 1_000;
/** Keys and guesses remembered by a worker; past it the oldest go. */
const MAX_KNOWN = 10_000;
const MAX_UNKNOWN = 5_000;
/** Keys that exist, by their heads: these are looked up even while guesses are not. 16 bytes or so each. */
const MAX_EXPECTED = 100_000;
const HEAD_DIGITS = 12;
/** Guesses that wait while too many are made, how long each does, and how often it looks. */
const MAX_GUESSES_WAITING = 32;
const GUESS_PATIENCE_MS = 450;
const GUESS_AGAIN_MS = 25;
/** One for all: in a flood of guesses the stack of each would cost more than all the rest. */
const TOO_MANY_GUESSES = new Unavailable('too many keys that are not known are asked for', {
  refusal: 'key_guesses',
});

/**
 * The API keys as a worker knows them: its own memory, then Redis, then PostgreSQL. While these are away a key
 * that is known goes on being accepted, one that is not cannot be judged (`Unavailable`).
 */
export class Keyring {
  readonly #shared: SharedKeys | undefined;
  readonly #postgres: Postgres;
  readonly #recent: RecentChanges;
  readonly #isLinked: () => boolean;
  readonly #onLookup: OnLookup;
  readonly #mayGuess: () => boolean | Promise<boolean>;
  readonly #unknownTtlMs: number;
  /** by the key itself: a request brings the key, and hashing it costs more than all the rest of a hit */
  readonly #known = new Map<string, Known>();
  readonly #unknown = new Map<string, Known>();
  readonly #keyBySha256 = new Map<string, string>();
  /** by sha256, as changes are */
  readonly #flights = new Map<string, Promise<Access | null>>();
  #guessesWaiting = 0;
  /** heads of sha256s that stand, or stood, in the table: only a hint, so it need not be complete or fresh */
  readonly #expected = new Set<number>();

  constructor(options: {
    shared: SharedKeys | undefined;
    postgres: Postgres;
    recent: RecentChanges;
    isLinked: () => boolean;
    unknownTtlMs: number;
    onLookup: OnLookup;
    /** whether one more key may be looked up of which nobody has heard */
    mayGuess: () => boolean | Promise<boolean>;
  }) {
    this.#shared = options.shared;
    this.#postgres = options.postgres;
    this.#recent = options.recent;
    this.#isLinked = options.isLinked;
    this.#unknownTtlMs = options.unknownTtlMs;
    this.#onLookup = options.onLookup;
    this.#mayGuess = options.mayGuess;
  }

  /** What the key may do as far as this worker knows: null is refused, undefined must be asked for with `load`. */
  find(key: string): Access | null | undefined {
    const access = this.#find(key);
    this.#onLookup('local', access === undefined ? 'miss' : access === null ? 'absent' : 'hit');
    return access;
  }

  #find(key: string): Access | null | undefined {
    const nowMs = Date.now();
    const known = this.#known.get(key);
    if (known !== undefined) {
      const ageMs = nowMs - known.checkedAtMs;
      if (known.doubted || (ageMs > UNLINKED_FRESH_MS && !this.#isLinked())) {
        if (nowMs >= known.retryAtMs) return undefined;
      } else if (ageMs > FRESH_MS) {
        known.checkedAtMs = nowMs - FRESH_MS + RETRY_MS;
        this.load(key).catch(() => {});
      }
      return unlessExpired(known.access, nowMs);
    }
    const unknown = this.#unknown.get(key);
    if (unknown !== undefined && !unknown.doubted) {
      const ageMs = nowMs - unknown.checkedAtMs;
      if (ageMs < (this.#isLinked() ? this.#unknownTtlMs : UNLINKED_FRESH_MS)) return null;
    }
    return isWellFormed(key) ? undefined : null;
  }

  /**
   * Asks Redis and PostgreSQL for a well-formed key. Throws `Unavailable` when neither can tell and the key
   * is not known; one that is known goes on being judged by what is known of it. Throws it too,
   * without having asked, for one of which nothing was ever heard while too many such are asked for.
   */
  load(key: string): Promise<Access | null> {
    const sha256 = hashOf(key);
    let flight = this.#flights.get(sha256);
    if (!flight) {
      const may = this.#known.has(key) || this.#expected.has(headOf(sha256)) || this.#mayGuess();
      if (may === false && this.#guessesWaiting >= MAX_GUESSES_WAITING)
        return Promise.reject(TOO_MANY_GUESSES);
      const loading = may === true ? this.#loadOrKeep(key, sha256) : this.#loadGuess(may, key, sha256);
      flight = loading.finally(() => {
        if (this.#flights.get(sha256) === flight) this.#flights.delete(sha256);
      });
      this.#flights.set(sha256, flight);
    }
    return flight;
  }

  /** Learns which keys exist. Until then, and of more than it can hold, a key's first use counts as a guess. */
  async learn(): Promise<void> {
    const rows = await this.#postgres.query((sql) =>
      sql.unsafe<{ head: string }[]>(
        `select left(encode(key_sha256, 'hex'), ${HEAD_DIGITS}) as head from api_keys
        order by version desc limit ${MAX_EXPECTED}`,
      ),
    );
    for (const { head } of rows) this.#expect(head);
  }

  /** The key with this sha256 has changed. */
  drop(sha256: string): void {
    this.#expect(sha256);
    // also of a key that is only being looked up: who asks from now on does not share that look-up
    this.#flights.delete(sha256);
    const key = this.#keyBySha256.get(sha256);
    if (key !== undefined) this.#forget(key, sha256);
  }

  /** Any key may have changed. What is known is asked for again at its next use. */
  doubtAll(): void {
    this.#flights.clear();
    for (const table of [this.#known, this.#unknown])
      for (const known of table.values()) {
        known.doubted = true;
        known.retryAtMs = 0;
      }
  }

  /** A few wait until one more may be looked up, or the change feed tells of them: a key may be that new. */
  async #loadGuess(may: false | Promise<boolean>, key: string, sha256: string): Promise<Access | null> {
    if (!(await may)) {
      if (this.#guessesWaiting >= MAX_GUESSES_WAITING) throw TOO_MANY_GUESSES;
      this.#guessesWaiting++;
      try {
        const untilMs = performance.now() + GUESS_PATIENCE_MS;
        do {
          if (performance.now() > untilMs) throw TOO_MANY_GUESSES;
          await wait(GUESS_AGAIN_MS);
        } while (!this.#expected.has(headOf(sha256)) && !(await this.#mayGuess()));
      } finally {
        this.#guessesWaiting--;
      }
    }
    return this.#loadOrKeep(key, sha256);
  }

  #expect(sha256: string): void {
    if (this.#expected.size < MAX_EXPECTED) this.#expected.add(headOf(sha256));
  }

  async #loadOrKeep(key: string, sha256: string): Promise<Access | null> {
    const loading = this.#load(key, sha256);
    try {
      return await (this.#known.has(key) ? withDeadline(loading, PATIENCE_MS) : loading);
    } catch (error) {
      if (!(error instanceof Unavailable || error instanceof DeadlineExceeded)) throw error;
      const known = this.#known.get(key) ?? (await this.#lastKnown(key, sha256));
      // it was dropped meanwhile: then what is known no longer counts
      if (!known) return loading;
      // the doubt stays: a change that was missed is not heard of again when the feed is back
      known.retryAtMs = Date.now() + RETRY_MS;
      return unlessExpired(known.access);
    }
  }

  /** What Redis holds of a key, for when PostgreSQL cannot be asked; that it is unknown there says nothing. */
  async #lastKnown(key: string, sha256: string): Promise<Known | undefined> {
    const began = this.#recent.position;
    const found = await this.#shared?.read(sha256);
    if (!found?.record || this.#recent.isOutdated(sha256, found.version)) return undefined;
    const access = accessOf(found.record);
    if (!this.#recent.mayStore(sha256, began)) return undefined;
    this.#remember(key, sha256, access, false);
    const known = this.#known.get(key)!;
    // Redis may have lost a change, and nobody could say so
    known.doubted = true;
    return known;
  }

  async #load(key: string, sha256: string): Promise<Access | null> {
    const began = this.#recent.position;
    let found: VersionedKey | undefined;
    if (this.#shared && this.#isLinked()) {
      found = await this.#shared.read(sha256);
      this.#onLookup('redis', found === undefined ? 'miss' : found.record === null ? 'absent' : 'hit');
    }
    if (!found || this.#recent.isOutdated(sha256, found.version))
      found = await this.#loadOrigin(sha256, began);

    const { record } = found;
    const access = record === null ? null : accessOf(record);
    if (this.#recent.mayStore(sha256, began)) this.#remember(key, sha256, access, record === null);
    return unlessExpired(access);
  }

  async #loadOrigin(sha256: string, began: number): Promise<VersionedKey> {
    const rows = await this.#postgres.query((sql) =>
      sql.unsafe<KeyRow[]>(
        `select ${KEY_COLUMNS} from api_keys where key_sha256 = decode($1, 'hex')`,
        [sha256],
        {
          prepare: true,
        },
      ),
    );
    this.#onLookup('postgres', rows[0] ? 'hit' : 'absent');
    const found = rows[0] ? keyOf(rows[0]) : { version: 0, record: null };
    if (this.#recent.mayStore(sha256, began)) {
      if (found.record) this.#shared?.fill([[sha256, found]]);
      else this.#shared?.rememberUnknown(sha256);
    }
    return found;
  }

  #remember(key: string, sha256: string, access: Access | null, unknown: boolean): void {
    this.#forget(key, sha256);
    const table = unknown ? this.#unknown : this.#known;
    table.set(key, { access, sha256, checkedAtMs: Date.now(), doubted: false, retryAtMs: 0 });
    this.#keyBySha256.set(sha256, key);
    if (table.size > (unknown ? MAX_UNKNOWN : MAX_KNOWN)) {
      const [oldest, { sha256: oldestSha256 }] = table.entries().next().value!;
      this.#forget(oldest, oldestSha256);
    }
  }

  #forget(key: string, sha256: string): void {
    this.#known.delete(key);
    this.#unknown.delete(key);
    this.#keyBySha256.delete(sha256);
  }
}

function accessOf({ id, scopes, expiresAtMs, revoked, rateLimit }: KeyRecord): Access | null {
  if (revoked) return null;
  const view = scopes.includes('registry') ? 'full' : 'narrow';
  return { keyId: id, view, expiresAtMs: expiresAtMs ?? Infinity, limit: rateLimit };
}

function headOf(sha256: string): number {
  return Number.parseInt(sha256.slice(0, HEAD_DIGITS), 16);
}

function unlessExpired(access: Access | null, nowMs = Date.now()): Access | null {
  return access !== null && nowMs < access.expiresAtMs ? access : null;
}
