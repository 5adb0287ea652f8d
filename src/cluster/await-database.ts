import type { Sql } from 'postgres';
import type { Config } from '../config/config.ts';
import { pause } from '../lib/clock.ts';
import { DeadlineExceeded, withDeadline } from '../lib/deadline.ts';
import type { Events } from '../observability/events.ts';
import { openDatabase } from '../postgres/connect.ts';
import { requireSchema } from '../postgres/migrate.ts';
import { openDetected } from '../postgres/pooler.ts';
import { requireServingLogin } from '../postgres/serving-login.ts';

/** Interval of attempts while PostgreSQL is unavailable or not migrated. */
const RETRY_MS = 500;
/** Timeout of one attempt; by then several others are in progress. */
const START_DEADLINE_MS = 3_000;

/** A database that the service can use. */
export interface FoundDatabase {
  /** true: DATABASE_URL leads through a pooler, so connections of all processes send no settings */
  pooled: boolean;
}

/**
 * Waits until PostgreSQL responds and has this release's schema. Returns undefined during shutdown. Attempts overlap:
 * on a half-open path an attempt never ends, and on a slow one it takes several round trips.
 */
export async function awaitDatabase(
  config: Config,
  events: Events,
  isStopping: () => boolean,
): Promise<FoundDatabase | undefined> {
  const found = Promise.withResolvers<FoundDatabase>();
  let serves = false;
  let announced = '';
  const attempt = async () => {
    try {
      found.resolve(await requireDatabase(config));
      serves = true;
    } catch (error) {
      const { message } = error as Error;
      if (message !== announced && !serves) events.notReadyYet(message);
      announced = message;
    }
  };
  while (!serves && !isStopping()) {
    void attempt();
    await Promise.race([found.promise, pause(RETRY_MS)]);
  }
  return serves ? found.promise : undefined;
}

/**
 * Throws unless the database has this release's schema and responds within the deadline, to the queries of workers.
 */
async function requireDatabase(config: Config): Promise<FoundDatabase> {
  const opened: Sql[] = [];
  const open = (pooled: boolean) => {
    const sql = openDatabase(config.DATABASE_URL, 1, {
      kind: 'serve',
      statementTimeoutMs: START_DEADLINE_MS,
      pooled,
    });
    opened.push(sql);
    return sql;
  };
  const check = async () => {
    const { sql, pooled } = await openDetected(open);
    await requireSchema(sql);
    if (pooled) await requireServingLogin(sql, config.DATABASE_TIMEOUT_MS);
    return { pooled };
  };
  try {
    return await withDeadline(check(), START_DEADLINE_MS);
  } catch (error) {
    if (!(error instanceof DeadlineExceeded)) throw error;
    throw new Error(`PostgreSQL did not answer within ${START_DEADLINE_MS} ms`, { cause: error });
  } finally {
    for (const sql of opened) sql.end({ timeout: 0 }).catch(() => {});
  }
}
