import { expect, it } from 'vitest';
import { readConfig } from '../config/config.ts';
import { divideDescriptors } from './descriptors.ts';

const config = (environment: Record<string, string> = {}) =>
  readConfig({ DATABASE_URL: 'postgres://localhost/hotels', DATABASE_POOL_SIZE: '8', ...environment });

it('keeps descriptors in reserve, also for pools during their replacement', () => {
  expect(divideDescriptors(config(), 1_024)).toMatchObject({ connections: 912, isLow: true });
  expect(divideDescriptors(config(), 20_000)).toMatchObject({ connections: 19_888, isLow: false });
  const replicas = 'postgres://a/hotels,postgres://b/hotels';
  expect(divideDescriptors(config({ DATABASE_REPLICA_URLS: replicas }), 1_024).connections).toBe(880);
  expect(divideDescriptors(config({ REDIS_URL: 'redis://a,redis://b' }), 20_000).connections).toBe(19_488);
});

it('leaves a quarter to clients if the limit is below the reserve', () => {
  expect(divideDescriptors(config(), 100).connections).toBe(25);
});

it('bounds nothing without a limit', () => {
  expect(divideDescriptors(config(), Infinity)).toMatchObject({ connections: Infinity, isLow: false });
});

it('reads the limit of the process', () => {
  expect(divideDescriptors(config()).limit).toBeGreaterThan(0);
});
