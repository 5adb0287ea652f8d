import { nextIteration } from '../lib/clock.ts';
import type { LogPlace } from '../log/row.ts';
import type { ChangeLog, LogState } from './change-log.ts';
import type { Token } from './token.ts';

/** Maximum number of tokens in a query. */
const MAX_TOKENS = 1_000;

interface Batch {
  /** by collection, place and state */
  readonly tokens: Map<string, Token>;
  readonly result: Promise<{ state: LogState; affected: Set<string> }>;
}

/**
 * Decides which waiting mirrors of collections must read a page after a change, by one query for many of them. Without
 * it one change costs a query for each collection that any client waits for.
 */
export class WakeFilter {
  readonly #log: ChangeLog;
  #running: Promise<unknown> = Promise.resolve();
  #next: Batch | undefined;

  constructor(log: ChangeLog) {
    this.#log = log;
  }

  /**
   * Returns the place up to which no change concerns the mirror; undefined: it must read a page. Throws `Unavailable`.
   */
  async unaffectedUpTo(token: Token): Promise<LogPlace | undefined> {
    if (!this.#next || this.#next.tokens.size >= MAX_TOKENS) this.#next = this.#gather();
    const { tokens, result } = this.#next;
    const name = nameOf(token);
    tokens.set(name, token);
    const { state, affected } = await result;
    const { position, transaction } = state;
    return affected.has(name) || position < token.position ? undefined : { position, transaction };
  }

  /** Begins a batch that takes tokens until the query before it has ended. */
  #gather(): Batch {
    const tokens = new Map<string, Token>();
    const result = Promise.all([nextIteration(), this.#running]).then(async () => {
      if (this.#next?.tokens === tokens) this.#next = undefined;
      const { state, affected } = await this.#log.affected([...tokens.values()]);
      return { state, affected: new Set(affected.map(nameOf)) };
    });
    this.#running = result.catch(() => {});
    return { tokens, result };
  }
}

function nameOf({ collection, history, position, transaction, isOrphaned }: Token): string {
  return JSON.stringify([collection, history, position, transaction, isOrphaned]);
}
