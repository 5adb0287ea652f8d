import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { disturbing, type Kind, path, type Scene } from './disturbing.ts';

async function restartRedis({ system }: Scene, dump?: string): Promise<void> {
  const [, folder] = (await system.redisClient.config('GET', 'dir')) as string[];
  await system.redis.kill();
  const file = join(folder!, 'dump.rdb');
  await rm(file, { force: true });
  if (dump !== undefined) await copyFile(dump, file);
}

export const REDIS_FAULTS = {
  'redis killed': {
    uses: 'redis',
    run: disturbing(
      (scene) => restartRedis(scene),
      ({ system }) => system.redis.restart(),
    ),
  },
  'redis saved': {
    uses: 'redis',
    run: async ({ system, left }) => {
      const [, folder] = (await system.redisClient.config('GET', 'dir')) as string[];
      await system.redisClient.save();
      left.redisDump = join(folder!, 'saved.rdb');
      await copyFile(join(folder!, 'dump.rdb'), left.redisDump);
    },
  },
  'redis killed, back with what was saved': {
    uses: 'redis',
    run: disturbing(
      (scene) => restartRedis(scene, scene.left.redisDump),
      ({ system }) => system.redis.restart(),
    ),
  },
  'redis flushed': { uses: 'redis', run: disturbing(({ system }) => system.redisClient.flushall()) },
  'redis frozen': {
    uses: 'redis',
    run: disturbing(
      ({ system }) => system.redis.freeze(),
      ({ system }) => system.redis.thaw(),
    ),
  },
  'redis unreachable': path('redis', 'blackout'),
  'redis slow': path('redis', 'delay'),
  'redis half open': path('redis', 'strand'),
  'redis reset': path('redis', 'reset'),
} satisfies Record<string, Kind>;
