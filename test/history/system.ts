import type { Sql } from 'postgres';
import { FakeClock } from '../support/fake-clock.ts';
import { type FaultySystem, faultySystem } from '../support/faulty-system.ts';
import { ownRedis } from '../support/own-server.ts';
import { pathOf } from '../support/programs.ts';
import { insertKey } from '../support/rows.ts';
import type { Service } from '../support/service.ts';

/** Collection of some of the mirrors. */
export const COLLECTION = 'mirrored';

/** Two services under one clock, which reach a PostgreSQL and one or two Redis servers of their own. */
export interface System extends FaultySystem {
  services: Service[];
  sql: Sql;
  clock: FakeClock;
  /** keys by view: of all hotels with and without the scope, and of the collection */
  keys: Record<View, string>;
  /** versions of hotels below which no response may be: those at which everything was last seen equal */
  floor: ReadonlyMap<string, number>;
}

export type View = 'full' | 'narrow' | 'collection';

/** Returns integers from 0 below a bound. */
export type Random = (below: number) => number;

/** Starts the system; the second service has the Redis of the first, which faults are put on, or one of its own. */
export async function startSystem(hasTwoRedis: boolean): Promise<System> {
  const clock = await FakeClock.make((await pathOf('faketime'))!);
  // the sequencer takes the day from its server
  const servers = await faultySystem({}, clock.env);
  const { sql } = servers.postgres;
  // a killed server loses no commit
  await sql`alter database postgres set synchronous_commit = on`;
  await sql`create sequence version`;
  const keys = {
    full: await insertKey(sql, ['registry']),
    narrow: await insertKey(sql, []),
    collection: await insertKey(sql, [], COLLECTION),
  };
  const env = { ...clock.env, DATABASE_TIMEOUT_MS: '2000' };
  const other: Record<string, string> = hasTwoRedis ? { REDIS_URL: (await ownRedis()).url } : {};
  const services = [
    await servers.start({ workers: 2, env }),
    await servers.start({ env: { ...env, ...other } }),
  ];
  return { ...servers, services, sql, clock, keys, floor: new Map() };
}

/** Returns the version of a hotel, which its name ends with; 0: none. */
export const versionOf = (name: string): number => Number(/ v(\d+)$/.exec(name)?.[1] ?? 0);
