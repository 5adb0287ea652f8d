import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type FaultContext, type Kind, onAllInstances, path } from './fault-kinds.ts';

async function restartRedis({ system }: FaultContext, dump?: string): Promise<void> {
  const [, folder] = (await system.redisClient.config('GET', 'dir')) as string[];
  await system.redis.kill();
  const file = join(folder!, 'dump.rdb');
  await rm(file, { force: true });
  if (dump !== undefined) await copyFile(dump, file);
}

export const REDIS_FAULTS = {
  'redis killed': {
    uses: 'redis',
    run: onAllInstances(
      (context) => restartRedis(context),
      ({ system }) => system.redis.restart(),
    ),
  },
  'redis saved': {
    uses: 'redis',
    run: async ({ system, results }) => {
      const [, folder] = (await system.redisClient.config('GET', 'dir')) as string[];
      await system.redisClient.save();
      results.redisDump = join(folder!, 'saved.rdb');
      await copyFile(join(folder!, 'dump.rdb'), results.redisDump);
    },
  },
  'redis killed, restored from its dump': {
    uses: 'redis',
    run: onAllInstances(
      (context) => restartRedis(context, context.results.redisDump),
      ({ system }) => system.redis.restart(),
    ),
  },
  'redis flushed': { uses: 'redis', run: onAllInstances(({ system }) => system.redisClient.flushall()) },
  'redis frozen': {
    uses: 'redis',
    run: onAllInstances(
      ({ system }) => system.redis.freeze(),
      ({ system }) => system.redis.thaw(),
    ),
  },
  'redis unreachable': path('redis', 'blackout'),
  'redis slow': path('redis', 'delay'),
  'redis half open': path('redis', 'halfOpen'),
  'redis reset': path('redis', 'reset'),
} satisfies Record<string, Kind>;
