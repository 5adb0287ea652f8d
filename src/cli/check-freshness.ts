import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { encodeHotel } from '../hotels/encode.ts';
import { VIEWS } from '../hotels/entry.ts';
import { HOTEL_COLUMNS, type HotelRow } from '../hotels/row.ts';
import { Failure } from '../lib/failure.ts';
import { openDatabase } from '../postgres/connect.ts';
import { openDetected } from '../postgres/pooler.ts';
import { parseDuration, parseWhole } from './common/arguments.ts';
import type { CliCommand } from './common/help.ts';
import { print } from './common/print.ts';
import { databaseUrl } from './common/session.ts';

/** Longer than any deadline of the service, which responds with 503 after it. */
const DEADLINE_MS = 30_000;
/** Requests for a hotel at once, each on a connection: several per worker, so that each worker is checked. */
const CONNECTIONS = 32;
/** Hotels compared in a round at random, and changed hotels followed at once. */
const SAMPLE = 5;
const FOLLOWED = 3;
const ROUND_MS = 250;
/** Interval between reads of the log. */
const WATCH_MS = 5;
/** Maximum pause between looks at a change that is not visible yet. */
const MAX_PAUSE_MS = 50;
/** Maximum number of faults that are printed. */
const SHOWN = 10;

export function addCommand(program: CliCommand): void {
  program
    .command('check-freshness')
    .description('compare a running deployment with PostgreSQL while both change; read-only')
    .requiredOption('--url <url>', 'base address of the API, including BASE_PATH')
    .option('--for <duration>', 'duration of the check: 10m, 1h (default: 30s)', parseDuration)
    .option('--promise-ms <ms>', 'maximum age of a response', parseWhole(1, 3_600_000), 1_000)
    .json('{"answers","changes","lag_ms","stale"}')
    .addHelpText(
      'after',
      `
HOTEL_API_KEY is an API key that sees all hotels. Lag is the time from the position of a change until a connection returns
it. The exit code is 1 if a response was older than promised, or nothing could be compared.`,
    )
    .examples('HOTEL_API_KEY=hk_… hotel-api check-freshness --url https://api.example/v1 --for 10m')
    .action(checkFreshness);
}

type Options = { url: string; for?: number; promiseMs: number; json?: boolean };

/** Runs `check-freshness`. Throws a `Failure` if an answer was older than promised, or if none could be compared. */
async function checkFreshness({ url, for: durationS = 30, promiseMs, json }: Options): Promise<void> {
  const key = process.env.HOTEL_API_KEY;
  if (!key) throw new Failure('HOTEL_API_KEY must hold a valid key of the deployment');
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new Failure('--url must be an http or https address');
  const address = databaseUrl();
  const open = (pooled: boolean) => openDatabase(address, 4, { kind: 'serve', deadlineMs: 5_000, pooled });
  const { sql } = await openDetected(open);
  const checker = new Checker(sql, requester(url, key), promiseMs, AbortSignal.timeout(durationS * 1_000));
  try {
    await Promise.all([checker.sample(), checker.watchLog()]);
  } finally {
    await sql.end({ timeout: 2 });
  }
  const { answers, rejected, changes, stale } = checker;
  const lag = checker.lag();
  const measured =
    changes === 0
      ? 'no change reached every connection meanwhile, so there is no lag to report'
      : `lag of ${changes} changes: median ${lag.median} ms, 99% ${lag.p99} ms, longest ${lag.max} ms`;
  print(json, { answers, changes, lag_ms: lag, stale }, `${answers} answers compared; ${measured}.`, null);
  if (stale.length > 0)
    throw new Failure([`${stale.length} times older than promised:`, ...stale.slice(0, SHOWN)].join('\n'));
  if (answers > 0) return;
  const none = 'there are no hotels, or --for is too short';
  throw new Failure(
    `nothing was compared: ${rejected > 0 ? `all ${rejected} requests were rejected (503)` : none}`,
  );
}

/** JSON of a hotel in a response; null: no such hotel; undefined: the request was rejected. */
type State = string | null | undefined;

/** Returns a function that requests a hotel. It throws a `Failure` for statuses other than 200, 404 and 503. */
export function requester(baseUrl: string, key: string): (id: string) => Promise<State> {
  const headers = { 'x-api-key': key, 'accept-encoding': 'identity' };
  return async (id) => {
    const url = `${baseUrl.replace(/\/$/, '')}/hotels/${encodeURIComponent(id)}`;
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const failed = (why: string) => new Failure(`${new URL(url).origin} ${why}`);
    try {
      const response = await fetch(url, { headers, signal });
      const body = await response.text();
      if (response.ok) return body;
      if (response.status === 404) return null;
      if (response.status === 503) return undefined;
      const advice = response.status === 401 ? ': is HOTEL_API_KEY a valid key of this deployment?' : '';
      throw failed(`responded with ${response.status}${advice}`);
    } catch (error) {
      if (error instanceof Failure) throw error;
      const { cause = error } = error as { cause?: Error };
      if (signal.aborted) throw failed(`did not respond within ${DEADLINE_MS} ms`);
      throw failed(`failed: ${(cause as Error).message}`);
    }
  };
}

/**
 * Checks the freshness of the service like Polaris of Meta (engineering.fb.com, "Cache made consistent", 2022). It follows
 * the log like a cache, reads hotels in PostgreSQL, changed and unchanged, and requests them over many connections.
 */
export class Checker {
  answers = 0;
  rejected = 0;
  /** changes that became visible on every connection */
  changes = 0;
  /** a message for each response older than promised */
  readonly stale: string[] = [];
  /** time from its position until each change was visible on each connection */
  readonly #lagsMs: number[] = [];
  readonly #sql: Sql;
  readonly #get: (id: string) => Promise<State>;
  readonly #promiseMs: number;
  readonly #end: AbortSignal;

  constructor(sql: Sql, get: (id: string) => Promise<State>, promiseMs: number, end: AbortSignal) {
    this.#sql = sql;
    this.#get = get;
    this.#promiseMs = promiseMs;
    this.#end = end;
  }

  /** Returns the median, the 99th percentile and the maximum, rounded to a ms; null without values. */
  lag(): Record<'median' | 'p99' | 'max', number | null> {
    const sorted = this.#lagsMs.toSorted((a, b) => a - b).map(Math.round);
    const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? null;
    return { median: at(0.5), p99: at(0.99), max: at(1) };
  }

  /** Compares a few random hotels on every connection, round by round, at least once. */
  async sample(): Promise<void> {
    do {
      const endsAtMs = performance.now() + ROUND_MS;
      const sample = await this.#sql<{ id: string }[]>`
        select id from (
          select id from hotels tablesample system (
            (select least(100, 100000 / greatest(reltuples, 1)) from pg_class where oid = 'hotels'::regclass)
          ) limit 10000
        ) as sampled order by random() limit ${SAMPLE}`;
      for (const { id } of sample) await this.#compare(id);
      await sleep(Math.max(0, endsAtMs - performance.now()));
    } while (!this.#end.aborted);
  }

  /** Follows changed hotels. A change counts from its position, which it gets within a poll of an instance after its commit. */
  async watchLog(): Promise<void> {
    let seen: number | undefined;
    while (!this.#end.aborted) {
      const [row] = await this.#sql<{ position: number; ids: string[]; ageMs: number }[]>`
        select position::float8, ids, extract(epoch from clock_timestamp() - at)::float8 * 1000 as "ageMs"
        from hotel_api_log where kind = 'hotels' order by position desc limit 1`;
      const readAtMs = performance.now();
      const isNew = row !== undefined && seen !== undefined && row.position > seen;
      // the changes meanwhile are left out: their lags would include the wait for these
      seen = isNew ? undefined : (row?.position ?? -1);
      if (!isNew) await sleep(WATCH_MS);
      else await Promise.all(row.ids.slice(0, FOLLOWED).map((id) => this.#follow(id, readAtMs - row.ageMs)));
    }
  }

  async #follow(id: string, positionedAtMs: number): Promise<void> {
    const lagsMs = await this.#compare(id, positionedAtMs);
    const shown = lagsMs.filter((lagMs) => lagMs !== undefined);
    this.#lagsMs.push(...shown);
    if (shown.length === lagsMs.length) this.changes++;
  }

  /** Compares a hotel on every connection; returns how long after `sinceMs`, by default now, each showed a state since then. */
  async #compare(id: string, sinceMs?: number): Promise<(number | undefined)[]> {
    const states = await this.#read(id);
    const fromMs = sinceMs ?? performance.now();
    return Promise.all(Array.from({ length: CONNECTIONS }, () => this.#lookAt(id, states, fromMs)));
  }

  /**
   * Requests a hotel until the response shows a state of PostgreSQL since `sinceMs`. Returns undefined if the request is
   * rejected, the check ends, or the response is too old, which is reported.
   */
  async #lookAt(id: string, states: Set<State>, sinceMs: number): Promise<number | undefined> {
    for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      const sentAtMs = performance.now();
      const state = await this.#get(id);
      const lagMs = performance.now() - sinceMs;
      if (state === undefined) {
        this.rejected++;
        return undefined;
      }
      this.answers++;
      if (states.has(state) || (await this.#read(id, states)).has(state)) return lagMs;
      if (sentAtMs - sinceMs > this.#promiseMs) {
        this.stale.push(`hotel ${id}: older than ${Math.round(sentAtMs - sinceMs)} ms`);
        return undefined;
      }
      if (this.#end.aborted) return undefined;
      await sleep(pauseMs);
    }
  }

  /** Adds the present state of a hotel in PostgreSQL to those since the first read, for keys of either view. */
  async #read(id: string, states = new Set<State>()): Promise<Set<State>> {
    const query = `select ${HOTEL_COLUMNS} from hotels where id = $1`;
    const [row] = await this.#sql.unsafe<HotelRow[]>(query, [id]);
    const entry = row && encodeHotel(row, 0, Date.now());
    for (const view of VIEWS) states.add(entry ? entry.body(view).toString() : null);
    return states;
  }
}
