import type { Sql } from 'postgres';
import { expect } from 'vitest';
import { prefixOf, SERVER } from '../../src/postgres/origin.ts';
import type { Service } from './service.ts';

interface LogState {
  history: string;
  /** see `SERVER` */
  server: string;
  /** last position */
  last: number;
  /** the sequencer has something to do */
  isDue: boolean;
}

/** Returns the state of the log. `sql` is a connection of the owner. */
export async function readLogState(sql: Sql): Promise<LogState> {
  const [state] = await sql<LogState[]>`
    select history, ${sql.unsafe(SERVER)} as server, last::float8 as last, is_due as "isDue"
    from hotel_api_poll(null, null, 1)`;
  return state!;
}

/** Resolves when everything that has committed is in the log, the ids of large transactions included. */
export async function untilSequenced(sql: Sql): Promise<void> {
  const isDue = async () => (await readLogState(sql)).isDue;
  await expect.poll(isDue, { interval: 10 }).toBe(false);
}

/** Resolves when every worker of the service has applied everything that has committed. */
export async function untilApplied(service: Service): Promise<void> {
  await untilSequenced(service.sql);
  const { last } = await readLogState(service.sql);
  // workers are told before they are asked for their metrics
  const position = () => service.metric('hotel_api_log_position');
  await expect.poll(position, { interval: 10 }).toBeGreaterThanOrEqual(last);
}

/** Returns the prefix of the service's names in Redis. */
export async function redisPrefix(sql: Sql): Promise<string> {
  return prefixOf(await readLogState(sql));
}
