import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { OwnServer } from '../support/own-server.ts';
import { type FaultContext, type Kind, onAllInstances, path } from './fault-kinds.ts';
import type { OtherRedis } from './system.ts';

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
      results.redisValues = new Map();
      const names = await system.redisClient.keysBuffer('*');
      for (const name of names) {
        const [value, ttlMs] = [
          await system.redisClient.dumpBuffer(name),
          await system.redisClient.pttl(name),
        ];
        if (value) results.redisValues.set(name.toString('latin1'), { value, ttlMs: Math.max(0, ttlMs) });
      }
    },
  },
  'redis put back, between two commands': {
    uses: 'redis',
    // what Redis holds never makes a value older than without a fault
    run: async ({ system, results }) => {
      const transaction = system.redisClient.multi().flushall();
      for (const [name, { value, ttlMs }] of results.redisValues ?? [])
        transaction.restore(Buffer.from(name, 'latin1'), ttlMs, value);
      await transaction.exec();
    },
  },
  'redis of its own': otherRedis(({ own }) => own),
  // a replica rejects writes, too
  'redis replica that lags': otherRedis(({ replica }) => replica),
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

/**
 * The instances use another server for a while, whose values are those of the last time, or of the replica. This never makes
 * a value older than without a fault.
 */
function otherRedis(which: (others: OtherRedis) => OwnServer): Kind {
  return {
    uses: 'paths to redis',
    run: async ({ system, step, targets }) => {
      const others = system.otherRedis!;
      others.link.blackout();
      await sleep(step.forMs / 3);
      for (const { instance } of targets) instance.paths.redis.moveTo(which(others).port);
      await sleep(step.forMs);
      for (const { instance } of targets) instance.paths.redis.moveTo(system.redis.port);
      await others.link.heal();
    },
  };
}
