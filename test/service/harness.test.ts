import { Redis } from 'ioredis';
import postgres from 'postgres';
import { describe, expect, test } from 'vitest';
import { closeAll } from '../support/cleanup.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { startService } from '../support/service.ts';

await needs('redis');

describe('a test file fails', () => {
  test('that leaves a connection to PostgreSQL behind', async () => {
    const { ownerUrl } = await freshDatabase();
    const leak = postgres(ownerUrl, { max: 1, connection: { application_name: 'a leak' } });
    await leak`select 1`;
    await expect(closeAll()).rejects.toThrow(/a connection to PostgreSQL: a leak, last query: select 1/);
    await leak.end({ timeout: 0 });
  });

  test('that leaves a connection to Redis behind', async () => {
    const { url } = await freshRedis();
    const leak = new Redis(url);
    await leak.ping();
    await expect(closeAll()).rejects.toThrow(/a connection to Redis/);
    leak.disconnect();
  });
});

describe('a service', () => {
  test('that cannot start fails the test with its output', async () => {
    await expect(startService({ redis: false, env: { WORKERS: 'many' } })).rejects.toThrow(
      /ended with code \d.*WORKERS must be/s,
    );
  });
});
