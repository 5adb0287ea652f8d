import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { drawGeneration, type HistoryPosition, readPosition } from '../change-feed/history.ts';
import type { Config } from '../config/config.ts';
import { DeadlineExceeded, withDeadline } from '../lib/deadline.ts';
import { Failure } from '../lib/failure.ts';
import type { Events } from '../observability/events.ts';
import { openDatabase, SETTINGS } from '../postgres/connect.ts';
import { requireSchema } from '../postgres/migrate.ts';

/** Interval of attempts while PostgreSQL is unavailable or not migrated. */
const RETRY_MS = 500;
/** Timeout of one attempt; by then several others are in progress. */
const START_DEADLINE_MS = 3_000;

/**
 * Waits until PostgreSQL responds and has this release's schema. Returns undefined during shutdown. Attempts overlap:
 * on a half-open path an attempt never ends, and on a slow one it takes several round trips.
 */
export async function awaitDatabase(
  config: Config,
  events: Events,
  isStopping: () => boolean,
): Promise<HistoryPosition | undefined> {
  const found = Promise.withResolvers<HistoryPosition>();
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
    await Promise.race([found.promise, wait(RETRY_MS)]);
  }
  return serves ? found.promise : undefined;
}

/**
 * Throws unless the database has this release's schema and responds within the deadline, to the queries of workers.
 */
async function requireDatabase(config: Config): Promise<HistoryPosition> {
  const pooled = config.DATABASE_DIRECT_URL !== '';
  const sql = openDatabase(config.DATABASE_URL, 1, {
    kind: 'serve',
    statementTimeoutMs: START_DEADLINE_MS,
    pooled,
  });
  const check = async () => {
    await requireSchema(sql);
    if (pooled) {
      await requireReadOnlyLogin(sql);
      await requireSettings(sql);
    }
    const position = await readPosition(sql);
    // Redis holds values of another database under the name of this one
    return position.fault === null ? position : { ...position, generation: drawGeneration() };
  };
  try {
    return await withDeadline(check(), START_DEADLINE_MS);
  } catch (error) {
    if (!(error instanceof DeadlineExceeded)) throw error;
    throw new Error(`PostgreSQL did not answer within ${START_DEADLINE_MS} ms`, { cause: error });
  } finally {
    sql.end({ timeout: 0 }).catch(() => {});
  }
}

/**
 * Throws a `Failure` if the login may write hotels or keys. Through a pooler a worker cannot drop rights for a
 * session.
 */
async function requireReadOnlyLogin(sql: Sql): Promise<void> {
  const [row] = await sql<{ login: string; may_write: boolean }[]>`
    select current_user as login,
      bool_or(has_table_privilege(name, 'insert, update, delete, truncate')) as may_write
    from unnest(array[
      'hotels', 'api_keys', 'hotel_api_changes', 'hotel_api_feed_position', 'hotel_api_change_log', 'hotel_api_change_log_state',
      'collections', 'collection_hotels', 'hotel_api_member_log'
    ]) as name`;
  if (!row!.may_write) return;
  throw new Failure(
    `The login ${row!.login} of DATABASE_URL may write. With DATABASE_DIRECT_URL set it must be a member of hotel_api_serve and of nothing else`,
  );
}

/** Throws a `Failure` if the login has other settings than the service needs, because a pooler rejects them at the start. */
async function requireSettings(sql: Sql): Promise<void> {
  const found = await sql<{ name: keyof typeof SETTINGS; setting: string; login: string }[]>`
    select name, setting, current_user as login from pg_settings
    where name = any(${Object.keys(SETTINGS)})
      -- on by default, but without effect on a server that cannot compile
      and (name <> 'jit' or pg_jit_available())`;
  for (const { name, setting, login } of found) {
    const needed = SETTINGS[name];
    const fits = name === 'extra_float_digits' ? Number(setting) >= 1 : setting.startsWith(needed);
    if (!fits)
      throw new Failure(
        `The login ${login} of DATABASE_URL has ${name} = ${setting}, and through a pooler the service cannot change it. ` +
          `Run: alter role ${login} set ${name} = '${needed}'`,
      );
  }
}
