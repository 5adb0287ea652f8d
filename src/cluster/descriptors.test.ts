import { expect, it } from 'vitest';
import { readConfig } from '../config/config.ts';
import { divideDescriptors } from './descriptors.ts';

const REPLICAS = { DATABASE_REPLICA_URLS: 'postgres://a/hotels,postgres://b/hotels' };
const CLUSTER = { REDIS_URL: 'redis://a,redis://b' };

// pools have their connections twice while they are replaced; at least a quarter is for clients
it.each<[limit: number, more: Record<string, string>, connections: number, isLow: boolean]>([
  [1_024, {}, 912, true],
  [20_000, {}, 19_888, false],
  [1_024, REPLICAS, 880, true],
  [20_000, CLUSTER, 19_488, false],
  [100, {}, 25, true],
  [Infinity, {}, Infinity, false],
])('of %i descriptors, some are in reserve: %o', (limit, more, connections, isLow) => {
  const config = { DATABASE_URL: 'postgres://localhost/hotels', DATABASE_POOL_SIZE: '8', ...more };
  expect(divideDescriptors(readConfig(config), limit)).toEqual({ limit, connections, isLow });
  expect(divideDescriptors(readConfig(config)).limit).toBeGreaterThan(0);
});
