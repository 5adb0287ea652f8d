import type { Events } from '../observability/events.ts';
import type { RedisStore } from '../redis/store.ts';

const CHECK_EVERY_MS = 10_000;

/**
 * Warns each time that Redis is found with an eviction policy that may evict the write marker. This includes a Redis
 * that was unavailable at the start, or was replaced or reconfigured. Returns the function that ends it.
 */
export function watchEvictionPolicy(redis: Pick<RedisStore, 'evictionPolicy'>, events: Events): () => void {
  let known: string | undefined;
  const check = async () => {
    const policy = await redis.evictionPolicy();
    if (policy === undefined || policy === known) return;
    known = policy;
    if (!policy.startsWith('volatile-')) events.evictionPolicyUnsuitable(policy);
  };
  void check();
  const timer = setInterval(check, CHECK_EVERY_MS);
  return () => clearInterval(timer);
}
