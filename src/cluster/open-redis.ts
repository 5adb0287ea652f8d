import { redisUrlsOf } from '../config/connection-addresses.ts';
import type { OnCall } from '../lib/circuit-breaker.ts';
import { Redis } from '../redis/client.ts';
import { RedisCluster } from '../redis/cluster/client.ts';
import { loginOf, type RedisStore } from '../redis/store.ts';
import type { ProcessContext } from './process-context.ts';

/**
 * Connects to the Redis of `REDIS_URL`, several addresses of which are nodes of a cluster; returns undefined if it is
 * empty.
 */
export function openRedis(context: ProcessContext, onCall?: OnCall): RedisStore | undefined {
  const { config, shutdown } = context;
  const { REDIS_TIMEOUT_MS: timeoutMs } = config;
  const urls = redisUrlsOf(config);
  if (urls.length === 0) return undefined;
  const onBreaker = context.onBreaker('redis');
  const redis =
    urls.length === 1
      ? new Redis(urls[0]!, timeoutMs, onBreaker, onCall)
      : new RedisCluster(urls, timeoutMs, onBreaker, onCall);
  shutdown.push('Redis', () => redis.close());
  context.onAddressChange('REDIS_URL', () => redis.useLogin(loginOf(config.REDIS_URL)));
  return redis;
}
