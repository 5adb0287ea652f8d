import type { OnCall } from '../stores/breaker.ts';
import { RedisCluster } from '../stores/cluster/redis-cluster.ts';
import { Redis } from '../stores/redis.ts';

/** Connects to the Redis of `REDIS_URL`, not empty: several addresses are nodes of a cluster. */
export function openRedis(
  addresses: string,
  timeoutMs: number,
  onBreaker: (open: boolean, reason: string) => void,
  onCall?: OnCall,
): Redis | RedisCluster {
  const urls = addresses.split(',').map((url) => url.trim());
  return urls.length === 1
    ? new Redis(addresses, timeoutMs, onBreaker, onCall)
    : new RedisCluster(urls, timeoutMs, onBreaker, onCall);
}
