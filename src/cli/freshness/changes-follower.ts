import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { hashOf } from '../../auth/key.ts';
import { writeToken } from '../../changes/token.ts';
import type { DatabaseState, Shown } from './database-state.ts';
import { stateOf } from './database-state.ts';
import type { ServiceClient } from './service-client.ts';

/** Maximum number of hotels whose last delivered state is kept. */
const MAX_DELIVERED = 100_000;
const RETRY_MS = 100;

/** Follows `GET /changes` from the present position on, and compares it with PostgreSQL. */
export class ChangesFollower {
  readonly #sql: Sql;
  readonly #client: ServiceClient;
  readonly #delivered = new Map<string, { shown: Shown; atMs: number }>();
  /** resolves with the next page, or at the end; one for all waits, of which there is one for each changed hotel */
  #nextPage = Promise.withResolvers<void>();
  /** time since which every state is kept */
  #completeSinceMs = Infinity;
  /** when the last request was sent that left no more */
  #requestedAtMs = -Infinity;

  constructor(sql: Sql, client: ServiceClient) {
    this.#sql = sql;
    this.#client = client;
  }

  /** Runs until the signal aborts. Throws a `Failure` if the service does not respond as expected. */
  async run(key: string, signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#wake(), { once: true });
    let token = await this.#present(key);
    while (!signal.aborted && token !== undefined) {
      const sentAtMs = performance.now();
      const page = await this.#client.changesAfter(token);
      if (page === 'expired') token = await this.#present(key);
      else if (page === undefined) await sleep(RETRY_MS);
      else {
        token = page.next;
        this.#note(page.changes);
        if (!page.more) this.#requestedAtMs = sentAtMs;
      }
      this.#wake();
    }
  }

  /**
   * Waits until the changes show a present state of the hotel. Returns the time since `sinceMs`; 'late' if a request
   * that was sent later than promised does not show it; undefined if that cannot be said.
   */
  async untilDelivered(
    id: string,
    truth: DatabaseState,
    sinceMs: number,
    promiseMs: () => number,
    signal: AbortSignal,
  ): Promise<number | 'late' | undefined> {
    while (!signal.aborted && sinceMs > this.#completeSinceMs) {
      // the page after the state that is compared here, also if it arrives, or the end comes, meanwhile
      const nextPage = this.#nextPage.promise;
      const requestedAtMs = this.#requestedAtMs;
      const delivered = this.#delivered.get(id);
      if (delivered && (await truth.matches(id, delivered.shown)))
        return Math.max(0, delivered.atMs - sinceMs);
      if (requestedAtMs - sinceMs > promiseMs()) return 'late';
      await nextPage;
    }
    return undefined;
  }

  #wake(): void {
    const { resolve } = this.#nextPage;
    this.#nextPage = Promise.withResolvers();
    resolve();
  }

  #note(changes: { id: string; hotel: object | null }[]): void {
    const atMs = performance.now();
    if (this.#delivered.size > MAX_DELIVERED) {
      this.#delivered.clear();
      this.#completeSinceMs = atMs;
    }
    for (const { id, hotel } of changes) this.#delivered.set(id, { shown: stateOf(hotel), atMs });
  }

  /** Returns a token of the present position; undefined for a key that is unknown or sees a collection only. */
  async #present(key: string): Promise<string | undefined> {
    this.#delivered.clear();
    const [row] = await this.#sql<
      { history: string; position: number; transaction: string; isFull: boolean }[]
    >`
      select (log.state).history, log.position::float8, log.transaction::text, 'registry' = any(scopes) as "isFull"
      from (select position, transaction, state from hotel_api_log order by position desc limit 1) as log, api_keys
      where key_sha256 = decode(${hashOf(key)}, 'hex') and collection_id is null`;
    this.#completeSinceMs = performance.now();
    if (!row) return undefined;
    const { history, position, transaction, isFull } = row;
    const view = isFull ? 'full' : 'narrow';
    const place = { walkedTo: null, collection: null, isOrphaned: false, isWhole: false } as const;
    return writeToken({ history, position, transaction, view, ...place });
  }
}
