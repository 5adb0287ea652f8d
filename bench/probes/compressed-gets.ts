import { createKey } from '../../src/cli/keys.ts';
import { readHotels } from '../hotels.ts';
import { type Cell, type Pace, runInterleaved } from '../rounds.ts';
import { accepting, CLIENTS, type Scenario, single } from '../scenarios.ts';
import { startNginx } from '../targets/nginx.ts';
import { startService } from '../targets/service.ts';
import type { Target } from '../targets/target.ts';
import { fillPeers, makeDatabase, redisUrlOf, type World } from '../world.ts';

const REDIS_DATABASE = 8;
const PEER_DATABASE = 9;
const HOTELS_OF_EACH = 500;

/** Sizes of the hotels, bytes of JSON. */
export const SIZES = [1_400, 4_000, 8_000];

/**
 * Requests warm hotels of four sizes as the default clients of three languages do. It compares the service without
 * compression, the service, and nginx with gzip.
 */
export async function compressedGets(world: World, pace: Pace): Promise<Cell[]> {
  const { shutdown, redis, tools } = world;
  const { sql, databaseUrl } = await makeDatabase(world, 'sizes', SIZES.length * HOTELS_OF_EACH);
  const { key } = await createKey(sql, { name: 'sizes', scopes: ['registry'], expiresAt: null });
  const { key: narrow } = await createKey(sql, { name: 'sizes, without', scopes: [], expiresAt: null });
  await sql`update hotels set images = '[]', description = name`;
  // the texts of a hotel are those of its neighbours
  const texts = (await readHotels(world.sql, { offset: 0, limit: SIZES.length * HOTELS_OF_EACH })).map(
    ({ json }) => String(JSON.parse(json).description),
  );
  const small = await readHotels(sql);
  for (const [i, { id, fullBytes }] of small.entries()) {
    const missing = SIZES[i % SIZES.length]! - fullBytes;
    const text = [...texts.slice(i), ...texts].join(' ').slice(0, Math.max(0, missing - 1));
    if (text) await sql`update hotels set description = description || ' ' || ${text} where id = ${id}`;
  }
  const keys = { full: key, narrow };
  const hotels = await readHotels(sql);
  const peerRedisUrl = redisUrlOf(redis, PEER_DATABASE);
  await fillPeers(peerRedisUrl, hotels);
  const around = {
    ...world.targetOptions,
    databaseUrl,
    redisUrl: redisUrlOf(redis, REDIS_DATABASE),
    peerRedisUrl,
    keys,
  };
  const targets = [await startService(around, { name: 'service' })];
  if (tools.nginx) targets.push(await startNginx(around, true, true));
  for (const target of targets) shutdown.push(`${target.name} of sizes`, target.stop, 12_000);

  const cells: Cell[] = [];
  for (const [i, size] of SIZES.entries()) {
    const own = hotels.filter((_, j) => j % SIZES.length === i);
    const scenario = (name: string, accept: string | undefined): Scenario => ({
      name,
      title: `GET of ${size} bytes, ${accept ?? 'identity'}`,
      small: true,
      connections: 64,
      calls: () => {
        const calls = own.map((hotel) => single(hotel, 'id', key, true));
        return accept === undefined ? calls : calls.map((call) => accepting(accept, call));
      },
    });
    const [service, nginx] = targets as [Target, Target?];
    const compressed = CLIENTS.map(([client, accept]) => scenario(`get-${size}-${client}`, accept));
    const pairs = [scenario(`get-${size}`, undefined), ...compressed].map((each) => ({
      scenario: each,
      target: service,
    }));
    // nginx sends all three the same response
    if (nginx) pairs.push({ scenario: compressed[0]!, target: nginx });
    cells.push(...(await runInterleaved({ ...world, hotels: own, keys }, pairs, pace)));
  }
  for (const target of targets) await target.stop();
  await sql.end();
  return cells;
}
