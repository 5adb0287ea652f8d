import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { restoreFolder, saveFolder } from '../history/restores.ts';
import { readLogState } from '../support/log-state.ts';
import type { Random, System } from './system.ts';

const DAY_MS = 86_400_000;
const IMPORTED = 600;

type Disturbance = (system: System, random: Random) => Promise<unknown>;

const endSessions =
  (...names: string[]): Disturbance =>
  ({ sql }) =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name in ${sql(names)}`;

const DISTURBANCES: Record<string, Disturbance> = {
  'lost polls': endSessions('hotel-api follow'),
  'lost connections': endSessions('hotel-api follow', 'hotel-api serve'),
  invalidation: ({ sql }) => sql`select hotel_api_invalidate()`,
  'empty Redis': ({ redisClient }) => redisClient.flushdb(),
  'killed Redis': async ({ redis }, random) => {
    await redis.kill();
    await sleep(random(500));
    await redis.restart();
  },
  import: ({ sql }) =>
    sql`insert into hotels (id, name) select 'import-' || i, 'imported' from generate_series(1, ${IMPORTED}) as i
      on conflict (id) do update set name = 'imported again'`,
  'truncated hotels': ({ sql }) => sql`truncate hotels`,
  'truncated memberships': ({ sql }) => sql`truncate collection_hotels`,
  midnight: ({ clock }, random) =>
    clock.set(Math.ceil(clock.now() / DAY_MS) * DAY_MS + random(1_500) - 1_000),
  'killed PostgreSQL': async ({ postgres }, random) => {
    await postgres.kill();
    await sleep(random(300));
    await postgres.restart();
  },
  'restored PostgreSQL': async ({ postgres, sql }, random) => {
    const data = await saveFolder(postgres, sql);
    // without a position since, the snapshot looks like a restart: see docs/guarantees.md
    const { last } = await readLogState(sql);
    await sql`insert into hotels (id, name) values ('announced', 'a') on conflict (id) do update set name = hotels.name || 'a'`;
    await expect.poll(async () => (await readLogState(sql)).last).toBeGreaterThan(last);
    await sleep(300 + random(700));
    await postgres.kill();
    await restoreFolder(data);
    await postgres.restart();
  },
};

/** Disturbs the system three times, in ways drawn at random. Returns their names. */
export async function disturb(system: System, random: Random): Promise<string[]> {
  const names = Object.keys(DISTURBANCES);
  const drawn: string[] = [];
  for (let i = 0; i < 3; i++) {
    await sleep(50 + random(200));
    const name = names[random(names.length)]!;
    drawn.push(name);
    // the server may be starting
    await DISTURBANCES[name]!(system, random).catch((error) => {
      if (!isUnavailable(error)) throw error;
    });
  }
  return drawn;
}

/** Returns true for the errors of a connection to a server that was killed. */
export function isUnavailable(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  return /^(57P0|CONNECT|ECONN)/.test(code ?? '') || /socket|Connection is closed/.test(message ?? '');
}
