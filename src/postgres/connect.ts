import postgres, { type Sql } from 'postgres';
import { postgresTlsOf } from '../config/postgres-tls.ts';

/** What connections are for; all but `operate` assume the role that cannot write. */
export type Purpose =
  /**
   * the workers' queries: read only; `pooled`: through a pooler that hands its connections out for one transaction
   * each, where no setting and no prepared statement would last, so that the login itself must be read only
   */
  | { kind: 'serve'; statementTimeoutMs: number; pooled: boolean }
  /** the active invalidator: holds a lock, takes changes off the queue */
  | { kind: 'invalidate'; onClose: () => void }
  /** hears the change feed */
  | { kind: 'listen' }
  /** the operator's command line */
  | { kind: 'operate' };

/** One-dimensional arrays of texts, and of bigints as digits; by the numbers that PostgreSQL has for them. */
export const ARRAYS = {
  text: { to: 1009, from: [1009], serialize: writeArray, parse: readArray },
  bigint: { to: 1016, from: [1016], serialize: writeArray, parse: readArray },
};

/**
 * PostgreSQL looks after a silent client this often, and forgets one that is gone without a word after 25 s; by the
 * system's own settings it would keep the connection for two hours, and a service that has opened others meanwhile
 * would need twice as many.
 */
const KEEPALIVE = { tcp_keepalives_idle: '10', tcp_keepalives_interval: '5', tcp_keepalives_count: '3' };

/** The role of 004-serving-role.sql. */
const SERVING_ROLE = 'hotel_api_serve';

/**
 * Opens a pool of at most `connections` to PostgreSQL; connects lazily. Nothing is pipelined, so a quick
 * query never waits behind a slow one on its connection: queue before the pool. A lost server is tried
 * again after 200 to 400 ms; queries fail meanwhile.
 */
export function openDatabase(address: string, connections: number, purpose: Purpose): Sql {
  const { kind } = purpose;
  const { url, ssl } = postgresTlsOf(address);
  const options = {
    ssl,
    max: connections,
    max_pipeline: 1,
    max_lifetime: kind === 'serve' ? 1_800 : null,
    // LISTEN has a connection of its own, which stays
    idle_timeout: kind === 'listen' ? 2 : null,
    backoff: () => 0.2 + Math.random() * 0.2,
    connect_timeout: kind === 'operate' ? 30 : 2,
    onnotice: () => {},
    // postgres.js 3.4 would ask for the types on each connection, and where it is lost meanwhile the rejection is
    // nobody's and ends the process
    ...(kind !== 'operate' && { fetch_types: false, types: ARRAYS }),
    onclose: kind === 'invalidate' ? purpose.onClose : undefined,
    prepare: !(kind === 'serve' && purpose.pooled),
    connection: { application_name: `hotel-api ${kind}`, ...settingsFor(purpose) },
  };
  // max_pipeline is missing in the published types
  return postgres(url, options as postgres.Options<Record<string, never>>) as unknown as Sql;
}

function settingsFor(purpose: Purpose): Record<string, string> {
  switch (purpose.kind) {
    case 'serve':
      if (purpose.pooled) return {};
      return {
        role: SERVING_ROLE,
        default_transaction_read_only: 'on',
        statement_timeout: String(purpose.statementTimeoutMs),
        ...KEEPALIVE,
      };
    case 'invalidate':
      // a process that is frozen or cut off must not keep the lock: it speaks every 500 ms or is ended
      return {
        role: SERVING_ROLE,
        idle_session_timeout: '1200',
        idle_in_transaction_session_timeout: '1200',
        tcp_user_timeout: '1200',
        client_connection_check_interval: '500',
        statement_timeout: '10000',
        // an ALTER TABLE that waits for others keeps it from comparing hotels, not from speaking
        lock_timeout: '300',
      };
    case 'listen':
      return { role: SERVING_ROLE, ...KEEPALIVE };
    case 'operate':
      return {};
  }
}

function writeArray(items: readonly (string | null)[]): string {
  const texts = items.map((item) => (item === null ? 'NULL' : `"${item.replace(/["\\]/g, '\\$&')}"`));
  return `{${texts.join(',')}}`;
}

function readArray(text: string): (string | null)[] {
  const items: (string | null)[] = [];
  for (const [, quoted, bare] of text.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/gs)) {
    if (quoted !== undefined) items.push(quoted.replace(/\\(.)/gs, '$1'));
    else items.push(bare === 'NULL' ? null : bare!);
  }
  return items;
}

/**
 * The rows of a result as PostgreSQL sent them; throws where it sent none at all. Of postgres.js 3.4:
 * - A query that is written between the error of a connection and its end is not told of either. When the connection
 *   stands again it is answered, with a result of no command and no rows: to us they would be hotels that do not exist.
 * - There are holes before the rows of a query that follows, on the same connection, one that failed after some of its
 *   rows had come (porsager/postgres, issues 1119 and 1181).
 */
export function completed<Rows>(rows: Rows): Rows {
  const { length, count, command } = rows as { length?: number; count?: number; command?: string | null };
  if (command === null)
    throw Object.assign(new Error('the connection was lost before the query was sent'), {
      code: 'CONNECTION_CLOSED',
    });
  if (!Array.isArray(rows) || length === count) return rows;
  // filter passes over holes
  return rows.filter(() => true) as Rows;
}
