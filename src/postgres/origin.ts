import { hash } from 'node:crypto';
import { isQueueFull, Unavailable } from '../errors.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Postgres } from './client.ts';
import { SETTINGS } from './connect.ts';
import type { Lane } from './lanes.ts';

/** Time for which a replica that was behind or failed is left alone. Changes are applied every 25 ms at most. */
const PAUSE_MS = 25;

/** A query, its parameters, and the owner and lane by which `Postgres` queues it. */
export type Query = [text: string, parameters: unknown[], owner?: string, lane?: Lane];

/** Rows and the position of the log at which they were read. */
interface Labelled<Row> {
  label: number;
  rows: Row[];
}

/** History of which the log is followed, on which server, and the position up to which it was applied. */
export interface Applied {
  history: string;
  /** value of `SERVER` there */
  server: string;
  position: number;
}

/** The newest row of the log, with each row of a query. `found` is null in the only row if the query returns none. */
type Mark = { label: number; history: string; server: string | null; found: true | null };

/** SQL of a condition that a setting has another value than the service needs, of those that the results of a statement depend on. */
const IS_SET_OTHERWISE = Object.entries(SETTINGS)
  .filter(([name]) => name !== 'jit' && name !== 'default_transaction_isolation')
  .map(([name, needed]) =>
    name === 'extra_float_digits'
      ? `current_setting('${name}')::integer < ${needed}`
      : `current_setting('${name}') not like '${needed}%'`,
  )
  .join(' or ');

/**
 * SQL of a condition that is true in a falsified session of a pooler: another user of the login has left it temporary tables
 * or settings. Temporary tables are read in place of others. By settings a position loses digits, or a time is another.
 * Functions are never temporary, so nothing can replace these.
 */
export const IS_FALSIFIED = `(pg_my_temp_schema() <> 0 or ${IS_SET_OTHERWISE})`;
/** Value of `SERVER` in such a session. */
export const FALSIFIED = 'falsified';

/**
 * SQL of a text that differs between the running server with its database and any copy. It has the start of the server (µs of
 * its clock) and the path of a sequence's file, which names the database. That of a table changes with `VACUUM FULL` and
 * `CLUSTER`. Null on a replica, which has what its primary wrote.
 */
export const SERVER = `case when ${IS_FALSIFIED} then '${FALSIFIED}' when not pg_is_in_recovery() then
    (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint || ' ' || pg_relation_filepath('hotel_api_queue_number_seq') end`;

/**
 * A label is honest. The sequencer gives a change its position after the change has committed, in one later transaction. A
 * snapshot that shows a position therefore shows every change with a position up to it. A statement has one snapshot: rows
 * that are read together with the newest position contain all of these changes, on the primary and on a replica alike.
 * The label may be too low, if later changes have no position yet; it is never too high. A copy of the database shows the
 * same positions and history until something is sequenced there: its rows are rejected by `SERVER`.
 *
 * Returns the rows of a query with their label, or undefined if they may not be used: the server is behind what was
 * applied before the read began, is not the one that is followed, before or after it, or the session is falsified. While
 * nothing is known to be applied, any label will do.
 * The columns of the query must not be named `label`, `history`, `server` or `found`. Throws what `Postgres` throws.
 */
export async function readLabelled<Row>(
  postgres: Postgres,
  applied: () => Applied | undefined,
  ...[text, ...rest]: Query
): Promise<Labelled<Row> | undefined> {
  // its object may change during the read
  const before = { ...applied() };
  const rows = await postgres.rows<Mark & Row>(withLabel(text), ...rest);
  const [mark] = rows;
  // a log without rows is not the one that was applied
  if (!mark || mark.label < (before.position ?? 0)) return undefined;
  if (!isFollowed(mark, before) || !isFollowed(mark, applied())) return undefined;
  return { label: mark.label, rows: mark.found ? rows : [] };
}

/** Returns whether a snapshot is one of the server and history that are followed, or of a replica. */
function isFollowed({ history, server }: Mark, applied: Partial<Applied> = {}): boolean {
  if (server === FALSIFIED) return false;
  if (applied.history === undefined) return true;
  return history === applied.history && (server === null || server === applied.server);
}

function withLabel(text: string): string {
  return `select mark.label, mark.history, mark.server, read.* from (
      select position::float8 as label, (state).history as history, ${SERVER} as server
      from hotel_api_log order by position desc limit 1
    ) as mark left join lateral (select true as found, query.* from (${text}) as query) as read on true`;
}

/**
 * Returns the prefix of the names in Redis. Labels are comparable within one history, and only while the server runs: an
 * older data folder can be put back by a restart alone, and its history then gives out the same positions again.
 */
export function prefixOf({ history, server }: Pick<Applied, 'history' | 'server'>): string {
  return hash('sha256', `${history} ${server}`, 'base64url').slice(0, 12);
}

interface OriginOptions {
  primary: Postgres;
  replicas: Postgres[];
  /** history and position up to which this process has applied the log; undefined while it knows neither */
  applied: () => Applied | undefined;
  /** false: changes older than a second may be unknown here, so that a replica cannot be compared and is left alone */
  mayCompareReplicas: () => boolean;
  /** called when the primary is behind what was applied: the database has gone back, or another has taken its place */
  onBehind: () => void;
  /** called for each read for which a replica was considered; all but `answered` went to the primary */
  count: (outcome: 'answered' | 'behind' | 'failed' | 'left_alone') => void;
}

interface Replica {
  postgres: Postgres;
  /**
   * Times of the first and the last of the last reads that all found it behind or failed; undefined: it was not behind when it was
   * read last. Behind each follows a pause, and then one read, its probe, not before `probeAtMs`.
   */
  behind?: { firstMs: number; lastMs: number; probeAtMs: number } | undefined;
}

/**
 * PostgreSQL as the origin of cached values: the primary, and replicas that are read in turn. Each read returns the label of
 * its rows, so an address of a replica may be that of a balancer or pooler in front of several. The primary answers if a
 * replica is behind, fails or is paused.
 */
export class Origin {
  readonly #options: OriginOptions;
  readonly #replicas: Replica[];
  #nextIndex = 0;

  constructor(options: OriginOptions) {
    this.#options = options;
    this.#replicas = options.replicas.map((postgres) => ({ postgres }));
  }

  /** Returns for each replica the time over which all reads have found it behind or failed. */
  get lagsMs(): number[] {
    return this.#replicas.map(({ behind }) => (behind ? behind.lastMs - behind.firstMs : 0));
  }

  /** Returns the number of queries that wait for a connection to any server. */
  get waiting(): number {
    return this.#replicas.reduce(
      (sum, { postgres }) => sum + postgres.waiting,
      this.#options.primary.waiting,
    );
  }

  /**
   * Returns the rows of one query and their label, which is not below what was applied before the call. The columns must
   * not be named `label`, `history`, `server` or `found`. Throws what `Postgres` throws, and `Unavailable` if the primary is behind.
   */
  async read<Row>(...query: Query): Promise<Labelled<Row>> {
    const read = this.#replicas.length > 0 ? await this.#readReplica<Row>(query) : undefined;
    return read ?? this.readPrimary(...query);
  }

  /** Reads like `read`, from the primary alone. */
  async readPrimary<Row>(...query: Query): Promise<Labelled<Row>> {
    const { primary, applied, onBehind } = this.#options;
    const read = await readLabelled<Row>(primary, applied, ...query);
    if (read) return read;
    onBehind();
    throw new Unavailable('PostgreSQL is behind the applied log', 'postgres_unavailable');
  }

  /** Returns the rows of `read` alone. */
  async rows<Row>(...query: Query): Promise<Row[]> {
    return (await this.read<Row>(...query)).rows;
  }

  /** Reads a replica; returns undefined if none may be read now, or if the next one is behind or fails. */
  async #readReplica<Row>(query: Query): Promise<Labelled<Row> | undefined> {
    const { applied, count } = this.#options;
    const replica = this.#next();
    if (!replica) {
      count('left_alone');
      return undefined;
    }
    try {
      const read = await readLabelled<Row>(replica.postgres, applied, ...query);
      count(read ? 'answered' : 'behind');
      if (read) replica.behind = undefined;
      else wasBehind(replica);
      return read;
    } catch (error) {
      count('failed');
      // a full queue says nothing about the replica
      if (!isQueueFull(error)) wasBehind(replica);
      return undefined;
    }
  }

  /** Returns the replica to read, if one may be read now. */
  #next(): Replica | undefined {
    const { applied, mayCompareReplicas } = this.#options;
    if (applied() === undefined || !mayCompareReplicas()) return undefined;
    const nowMs = monotonicMs();
    for (let i = 0; i < this.#replicas.length; i++) {
      const replica = this.#replicas[this.#nextIndex++ % this.#replicas.length]!;
      const { postgres, behind } = replica;
      if (postgres.breakerOpen || (behind && nowMs < behind.probeAtMs)) continue;
      if (behind) behind.probeAtMs = nowMs + PAUSE_MS;
      return replica;
    }
    return undefined;
  }
}

function wasBehind(replica: Replica): void {
  const nowMs = monotonicMs();
  const firstMs = replica.behind?.firstMs ?? nowMs;
  replica.behind = { firstMs, lastMs: nowMs, probeAtMs: nowMs + PAUSE_MS };
}
