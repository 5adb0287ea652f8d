import type { Sql } from 'postgres';
import type { Config } from '../config/config.ts';
import { pause } from '../lib/clock.ts';
import { DeadlineExceeded, withDeadline } from '../lib/deadline.ts';
import type { Events } from '../observability/events.ts';
import { openDatabase } from '../postgres/connect.ts';
import { requireSchema } from '../postgres/migrate.ts';
import { openDetected, requireServingLogin } from '../postgres/pooler.ts';

/** Pause between attempts while PostgreSQL is unavailable or not migrated, and the timeout of one. */
const ATTEMPT_PAUSE_MS = 500;
const ATTEMPT_DEADLINE_MS = 3_000;

/**
 * Waits until PostgreSQL responds within 3 s to the queries of workers, and has this release's schema. Returns
 * undefined during shutdown. `pooled`: DATABASE_URL leads through a pooler, so connections of all processes send no settings.
 */
export async function awaitDatabase(
  config: Config,
  events: Events,
  isStopping: () => boolean,
): Promise<{ pooled: boolean } | undefined> {
  for (let announced = ''; !isStopping(); await pause(ATTEMPT_PAUSE_MS)) {
    const opened: Sql[] = [];
    try {
      return await withDeadline(check(config, opened), ATTEMPT_DEADLINE_MS);
    } catch (error) {
      const isLate = error instanceof DeadlineExceeded;
      const reason = isLate
        ? `PostgreSQL did not answer within ${ATTEMPT_DEADLINE_MS} ms`
        : (error as Error).message;
      if (reason !== announced) events.notReadyYet(reason);
      announced = reason;
    } finally {
      for (const sql of opened) sql.end({ timeout: 0 }).catch(() => {});
    }
  }
  return undefined;
}

async function check(config: Config, opened: Sql[]): Promise<{ pooled: boolean }> {
  const open = (pooled: boolean) => {
    const options = { kind: 'serve', deadlineMs: ATTEMPT_DEADLINE_MS, pooled } as const;
    const sql = openDatabase(config.DATABASE_URL, 1, options);
    opened.push(sql);
    return sql;
  };
  const { sql, pooled } = await openDetected(open).catch(async (error) => {
    // it may throw an error that says what to do
    await requireSchema(open(false));
    throw error;
  });
  await requireSchema(sql);
  if (pooled) await requireServingLogin(sql, config.DATABASE_TIMEOUT_MS);
  return { pooled };
}
