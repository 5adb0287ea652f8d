import { expect, it } from 'vitest';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { FaultProxy } from '../support/proxy.ts';
import { startService } from '../support/service.ts';
import { untilEqual } from '../support/stall-detector.ts';
import { untilStopped } from '../support/stopped.ts';
import { unreadBytes } from '../support/tcp-connections.ts';

await needs('redis');

/** Polls often: the instance waits 600 ms for Redis, and its stop has to end before. */
const SOON = { interval: 2 };

it('an instance announces changes after its connection ended just before Redis replied', async () => {
  const [database, redisDatabase] = [await freshDatabase(), await freshRedis()];
  const toPostgres = await FaultProxy.before(database.url);
  const toRedis = await FaultProxy.before(redisDatabase.url);
  const service = await startService({
    database: { ...database, url: toPostgres.url },
    redisDatabase: { ...redisDatabase, url: toRedis.url },
    hotels: [{ id: 'h' }],
    env: { REDIS_TIMEOUT_MS: '10000' },
  });
  const feedIs = (up: 0 | 1) => untilEqual(5_000, () => service.metric('hotel_api_change_feed_up'), up);
  await feedIs(1);

  // the transaction of a heartbeat is open until Redis has replied
  toRedis.blackout();
  await expect
    .poll(
      () => service.sql`
        select from pg_stat_activity
        where application_name = 'hotel-api invalidate' and datname = current_database()
          and state = 'idle in transaction' and clock_timestamp() - state_change > interval '50 ms'`,
      SOON,
    )
    .toHaveLength(1);
  process.kill(service.pid, 'SIGSTOP');
  try {
    await untilStopped(service.pid);
    // when it continues, it finds the end of its connection first, and then the reply
    toPostgres.reset();
    await toRedis.heal();
    await expect.poll(() => unreadBytes(service.pid, toRedis.port), SOON).toBeGreaterThan(0);
  } finally {
    process.kill(service.pid, 'SIGCONT');
  }
  const announced = () => service.metric('hotel_api_changes_total', { kind: 'hotels' });
  const before = await announced();
  await service.sql`update hotels set name = 'new'`;
  await untilEqual(5_000, announced, before + 1);
  await feedIs(1);
});
