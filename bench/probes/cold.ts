import { createKey } from '../../src/cli/keys.ts';
import { HOTEL_COLUMNS } from '../../src/hotels/row.ts';
import { readHotels } from '../hotels.ts';
import { sendOnce } from '../load/connection.ts';
import { batchOf, withChannel } from '../scenarios.ts';
import { startService } from '../targets/service.ts';
import { makeDatabase, redisUrlOf, type World } from '../world.ts';
import type { Probe } from './probe.ts';

const SIZE = 1000;
const REDIS_DATABASE = 2;
/** Rounds that are not measured: they open connections, prepare statements and compile code. */
const WARM_UP = 5;

/**
 * Compares batches of 1000 ids that no tier has read with the bare query for as many other ids. The database is another
 * one, because all instances of a database share a Redis, and that of the scenarios holds all hotels. The query uses one
 * warm connection, and its rows are not parsed. The two alternate.
 */
export async function cold(world: World, rounds: number): Promise<Probe> {
  const { targetOptions, redis, shutdown } = world;
  // most hotels have a channel id
  const { sql, databaseUrl } = await makeDatabase(world, 'cold', 3 * SIZE * (WARM_UP + rounds));
  const { key } = await createKey(sql, { name: 'cold', scopes: ['registry'], expiresAt: null });
  const service = await startService(
    { ...targetOptions, databaseUrl, redisUrl: redisUrlOf(redis, REDIS_DATABASE) },
    { name: 'service', environment: { WARMUP_TIMEOUT_MS: '0' } },
  );
  shutdown.push('the cold service', service.stop, 12_000);
  const named = withChannel(await readHotels(sql));
  const part = () => {
    if (named.length < SIZE) throw new Error('too few hotels for so many rounds of cold ids');
    return named.splice(0, SIZE);
  };
  const query = `select ${HOTEL_COLUMNS} from hotels where channel_id = any($1::text[])`;
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let round = 0; round < WARM_UP + rounds; round++) {
    const call = batchOf(part(), key, true);
    const ids = part().map(({ channelId }) => channelId);
    const beganAtMs = performance.now();
    await sendOnce(service.port, call);
    const betweenMs = performance.now();
    const rows = await sql.unsafe(query, [ids as string[]], { prepare: true }).raw();
    const endedAtMs = performance.now();
    if (rows.length !== SIZE) throw new Error('the bare query found too few rows');
    if (round < WARM_UP) continue;
    ours.push(betweenMs - beganAtMs);
    theirs.push(endedAtMs - betweenMs);
  }
  await service.stop();
  return {
    name: 'cold',
    what: '1000 cold ids from PostgreSQL, ms: ours against the bare query',
    ours,
    theirs,
  };
}
