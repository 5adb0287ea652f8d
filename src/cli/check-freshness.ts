import { once } from 'node:events';
import * as http from 'node:http';
import * as https from 'node:https';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { hashOf } from '../auth/key.ts';
import { writeToken } from '../changes/token.ts';
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
/** Connections to the API: several per worker, so that each worker is checked. */
const CONNECTIONS = 32;
/** Hotels compared in a round at random, and changed hotels followed at once. */
const SAMPLE = 5;
const FOLLOWED = 3;
const ROUND_MS = 250;
/** Interval between reads of the log, and the rows read at once. */
const WATCH_MS = 5;
const MAX_ROWS = 20;
/** Maximum pause between looks at a change that is not visible yet. */
const MAX_PAUSE_MS = 50;
/** Maximum number of faults that are printed. */
const SHOWN = 10;

/** Rows of changed hotels after a position, and the last row of the log, with whether changes have committed that it lacks. */
const LOG_AFTER = `
  select last.position::float8 as last, last.transaction::text as "lastTransaction", row.position::float8, row.ids,
    row.transaction::text, extract(epoch from clock_timestamp() - row.at)::float8 * 1000 as "ageMs", exists (
      select from hotel_api_ranges((last.state).snapshot, pg_current_snapshot())
        join hotel_api_queue queue on queue.transaction between low and high
    ) as "isUnread"
  from (select * from hotel_api_log order by position desc limit 1) as last
  left join lateral (
    select * from hotel_api_log where position > $1 and kind = 'hotels' order by position limit ${MAX_ROWS}
  ) as row on true`;

export function addCommand(program: CliCommand): void {
  program
    .command('check-freshness')
    .description(
      'compare a running deployment, GET /changes included, with PostgreSQL while both change; read-only',
    )
    .requiredOption('--url <url>', 'base address of the API, including BASE_PATH')
    .option('--for <duration>', 'duration of the check: 10m, 1h (default: 30s)', parseDuration)
    .option('--promise-ms <ms>', 'maximum age of a response', parseWhole(1, 3_600_000), 1_000)
    .json('{"answers","changes","lag_ms","mirror_changes","mirror_lag_ms","stale"}')
    .addHelpText(
      'after',
      `
HOTEL_API_KEY is an API key that sees all hotels. Lag is the time from the position of a change until a connection, or GET /changes,
returns it. The exit code is 1 if a response was older than promised, or nothing could be compared.`,
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
  const connections = Array.from({ length: CONNECTIONS }, () => connectTo(url, key));
  const checker = new Checker(sql, connections, connectTo(url, key), promiseMs, durationS * 1_000);
  try {
    await checker.run(key);
  } finally {
    await sql.end({ timeout: 2 });
  }
  const { changes, lagsMs, mirrorLagsMs, stale } = checker;
  const { answers, rejected } = checker.responses;
  const [lag, mirrorLag] = [lagOf(lagsMs), lagOf(mirrorLagsMs)];
  const measured =
    changes === 0
      ? 'no change reached every connection meanwhile, so there is no lag to report'
      : `lag of ${changes} changes: median ${lag.median} ms, 99% ${lag.p99} ms, longest ${lag.max} ms; in GET /changes: longest ${mirrorLag.max} ms`;
  const lags = { lag_ms: lag, mirror_changes: mirrorLagsMs.length, mirror_lag_ms: mirrorLag };
  print(json, { answers, changes, ...lags, stale }, `${answers} answers compared; ${measured}.`, null);
  if (stale.length > 0)
    throw new Failure([`${stale.length} times older than promised:`, ...stale.slice(0, SHOWN)].join('\n'));
  if (answers > 0) return;
  const none = 'there are no hotels, or --for is too short';
  throw new Failure(
    `nothing was compared: ${rejected > 0 ? `all ${rejected} requests were rejected (503)` : none}`,
  );
}

/** Returns the median, the 99th percentile and the maximum, rounded to a ms; null without values. */
function lagOf(lagsMs: number[]): Record<'median' | 'p99' | 'max', number | null> {
  const sorted = lagsMs.toSorted((a, b) => a - b).map(Math.round);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? null;
  return { median: at(0.5), p99: at(0.99), max: at(1) };
}

/** JSON of a hotel in a response; null: no such hotel; undefined: no response about it. */
type State = string | null | undefined;

/** Requests a path of the service; returns null for 404 and 410, and undefined for 503. */
type Get = (path: string) => Promise<State>;

/** Returns a client with one connection to the service, and so to one worker. It throws a `Failure` for other statuses. */
function connectTo(baseUrl: string, key: string): Get {
  const { request, Agent } = baseUrl.startsWith('https:') ? https : http;
  const agent = new Agent({ keepAlive: true, maxSockets: 1, timeout: 5_000 });
  const headers = { 'x-api-key': key, 'accept-encoding': 'identity' };
  return async (path) => {
    const url = `${baseUrl.replace(/\/$/, '')}/${path}`;
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const failed = (why: string) => new Failure(`${new URL(url).origin} ${why}`);
    const [status, body] = await once(request(url, { agent, headers, signal }).end(), 'response')
      .then(
        async ([response]: http.IncomingMessage[]) => [response!.statusCode, await text(response!)] as const,
      )
      .catch(({ message }: Error) => {
        throw failed(signal.aborted ? `did not respond within ${DEADLINE_MS} ms` : `failed: ${message}`);
      });
    if (status === 200) return body;
    if (status === 404 || status === 410) return null;
    if (status === 503) return undefined;
    const advice = status === 401 ? ': is HOTEL_API_KEY a valid key of this deployment?' : '';
    throw failed(`responded with ${status}${advice}`);
  };
}

/**
 * Checks the freshness of the service like Polaris of Meta (engineering.fb.com, "Cache made consistent", 2022). It follows
 * the log like a cache, reads hotels in PostgreSQL, changed and unchanged, and requests them over many connections.
 */
class Checker {
  readonly responses = { answers: 0, rejected: 0 };
  /** changes that became visible on every connection */
  changes = 0;
  /** time from its position until each change was visible on each connection, and in `GET /changes` */
  readonly lagsMs: number[] = [];
  readonly mirrorLagsMs: number[] = [];
  /** a message for each response older than promised */
  readonly stale: string[] = [];
  readonly #sql: Sql;
  readonly #connections: Get[];
  readonly #mirror: Get;
  readonly #promiseMs: number;
  readonly #end: AbortSignal;
  readonly #following = new Set<Promise<unknown>>();

  constructor(sql: Sql, connections: Get[], mirror: Get, promiseMs: number, durationMs: number) {
    this.#sql = sql;
    this.#connections = connections;
    this.#mirror = mirror;
    this.#promiseMs = promiseMs;
    this.#end = AbortSignal.timeout(durationMs);
  }

  /** Runs for the given duration. Throws a `Failure` if the service does not respond as expected. */
  async run(key: string): Promise<void> {
    await Promise.all([this.#sample(), this.#watchLog(await this.#tokens(key))]);
    await Promise.all(this.#following);
  }

  /** Compares a few random hotels on every connection, round by round. */
  async #sample(): Promise<void> {
    while (!this.#end.aborted) {
      const endsAtMs = performance.now() + ROUND_MS;
      const [row] = await this.#sql<{ percent: number }[]>`
        select least(100, 100 * 1000.0 / greatest(reltuples, 1))::float8 as percent
        from pg_class where oid = 'hotels'::regclass`;
      const sample = await this.#sql<{ id: string }[]>`
        select id from (select id from hotels tablesample system (${row!.percent}) limit 10000) as sampled
        order by random() limit ${SAMPLE}`;
      for (const { id } of sample) {
        const states = await this.#read(id);
        const readAtMs = performance.now();
        await Promise.all(this.#connections.map((get) => this.#lookAt(get, id, states, readAtMs)));
      }
      await sleep(Math.max(0, endsAtMs - performance.now()));
    }
  }

  /** Follows the log. A change counts from its position, which it gets within a poll of an instance after its commit. */
  async #watchLog(tokenAt: (position: number, transaction: string) => string): Promise<void> {
    let [position, token] = [Number.MAX_SAFE_INTEGER, ''];
    let unreadSinceMs: number | undefined;
    while (!this.#end.aborted) {
      const watchedAtMs = performance.now();
      const rows = await this.#sql.unsafe(LOG_AFTER, [position]);
      const { isUnread, last, lastTransaction } = rows[0]!;
      unreadSinceMs = isUnread ? (unreadSinceMs ?? watchedAtMs) : undefined;
      if (watchedAtMs - (unreadSinceMs ?? watchedAtMs) > this.#promiseMs) {
        this.stale.push(`a committed change was not in the log within ${this.#promiseMs} ms`);
        unreadSinceMs = undefined;
      }
      for (const { position: at, ids, ageMs } of rows)
        if (at !== null) this.#changed(ids, performance.now() - ageMs, token);
      const end = rows.length < MAX_ROWS ? undefined : rows.at(-1);
      position = end?.position ?? last;
      token = tokenAt(position, end?.transaction ?? lastTransaction);
      await sleep(WATCH_MS);
    }
  }

  /** Follows hotels that have changed since the token. */
  #changed(ids: string[], positionedAtMs: number, token: string): void {
    // more at once would wait for each other's requests, and their lags would be those of this queue
    if (this.#end.aborted || this.#following.size >= FOLLOWED) return;
    for (const id of ids.slice(0, FOLLOWED)) {
      const following = this.#follow(id, positionedAtMs, token);
      this.#following.add(following);
      // a failed one is thrown at the end
      following.then(() => this.#following.delete(following)).catch(() => {});
    }
  }

  async #follow(id: string, positionedAtMs: number, token: string): Promise<void> {
    const states = await this.#read(id);
    const [mirrorLagMs, ...lagsMs] = await Promise.all([
      token === '' ? undefined : this.#lookAt(this.#mirror, id, states, positionedAtMs, token),
      ...this.#connections.map((get) => this.#lookAt(get, id, states, positionedAtMs)),
    ]);
    if (mirrorLagMs !== undefined) this.mirrorLagsMs.push(mirrorLagMs);
    const shown = lagsMs.filter((lagMs) => lagMs !== undefined);
    this.lagsMs.push(...shown);
    if (shown.length === lagsMs.length) this.changes++;
  }

  /**
   * Requests a hotel, or with a token the changes since then, until a response shows a state of PostgreSQL since `sinceMs`.
   * It ends without one if the request is rejected, the check ends, or the response is too old, which is reported.
   */
  async #lookAt(get: Get, id: string, states: Set<State>, sinceMs: number, token = '') {
    const isMirror = token !== '';
    for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      const sentAtMs = performance.now();
      const state = await (isMirror
        ? stateInChanges(get, id, token)
        : get(`hotels/${encodeURIComponent(id)}`));
      const lagMs = performance.now() - sinceMs;
      if (!isMirror) this.responses[state === undefined ? 'rejected' : 'answers']++;
      if (state === undefined && !isMirror) return undefined;
      if (state !== undefined && (states.has(state) || (await this.#read(id, states)).has(state)))
        return lagMs;
      if (sentAtMs - sinceMs > this.#promiseMs) {
        const where = isMirror ? 'GET /changes: ' : '';
        this.stale.push(`${where}hotel ${id}: older than ${Math.round(sentAtMs - sinceMs)} ms`);
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

  /** Returns a function for tokens of positions; they are empty for a key that is unknown or sees a collection only. */
  async #tokens(key: string): Promise<(position: number, transaction: string) => string> {
    const [row] = await this.#sql<{ history: string; isFull: boolean }[]>`
      select (log.state).history, 'registry' = any(scopes) as "isFull"
      from (select state from hotel_api_log order by position desc limit 1) as log, api_keys
      where key_sha256 = decode(${hashOf(key)}, 'hex') and collection_id is null`;
    if (!row) return () => '';
    const { history, isFull } = row;
    const other = { walkedTo: null, collection: null, isOrphaned: false, isWhole: false };
    return (position, transaction) =>
      writeToken({ history, position, transaction, view: isFull ? 'full' : 'narrow', ...other });
  }
}

/** Returns the state of a hotel in `GET /changes` after a token; undefined if it is not there. */
async function stateInChanges(get: Get, id: string, token: string): Promise<State> {
  for (let next = token; ; ) {
    const body = await get(`changes?limit=1000&after=${next}`);
    if (!body) return undefined;
    const page = JSON.parse(body);
    const found = page.changes.find((change: { id: string }) => change.id === id);
    if (found) return found.hotel && JSON.stringify(found.hotel);
    if (!page.more) return undefined;
    next = page.next;
  }
}
