import type { Sql } from 'postgres';
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import type { FaultProxy } from '../support/proxy.ts';
import { type Service, startBehindProxy } from '../support/service.ts';
import { within } from '../support/stall-detector.ts';

const PATH = '/hotels/h';
const TIMEOUT_MS = 8_000;
/** Longer than a query may take; and shorter, but longer than a cached value is used while the feed is silent. */
const [TOO_LATE_S, LATE_S] = [30, 4];

const HOTELS = ['hotels', 'where id = any('] as const;
const KEYS = ['api_keys', 'where key_sha256 = decode('] as const;

let proxy: FaultProxy;
let service: Service;

beforeAll(async () => {
  ({ service, proxy } = await startBehindProxy({
    hotels: [{ id: 'h', name: 'old' }, { id: 'deleted' }],
    env: { DATABASE_TIMEOUT_MS: String(TIMEOUT_MS) },
  }));
});

beforeEach(async () => {
  await within(
    5_000,
    () => service.metric('hotel_api_change_feed_up'),
    (up) => expect(up).toBe(1),
  );
  expect((await service.get(PATH)).status).toBe(200);
  proxy.blackout('hotel-api listen');
});

afterEach(() => proxy.heal());

/** Delays the queries of workers that contain this text, until the test has finished; others of the table are answered. */
async function delay(sql: Sql, [table, text]: readonly [string, string], seconds: number): Promise<void> {
  await sql.unsafe(`
    create policy late on ${table} using (
      case when current_setting('application_name') = 'hotel-api serve' and strpos(current_query(), '${text}') > 0
      then pg_sleep(${seconds}) is not null else true end);
    alter table ${table} enable row level security`);
  onTestFinished(async () => {
    await sql`select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'`;
    await sql.unsafe(`alter table ${table} disable row level security; drop policy late on ${table}`);
  });
}

describe('while the feed is silent', () => {
  it.each([
    ['hotels', HOTELS],
    ['keys', KEYS],
  ])('and queries for %s are too late, but others are answered, the response is 503', async (_, queries) => {
    await delay(service.sql, queries, TOO_LATE_S);
    await within(
      10_000,
      () => service.get(PATH),
      ({ status }) => expect(status).toBe(503),
    );
    expect((await service.get(PATH)).status).toBe(503);
    expect(await service.metric('hotel_api_breaker_open', { dependency: 'postgres' })).toBe(0);
  });

  it('the age of a hotel counts from the beginning of its query', async () => {
    await delay(service.sql, HOTELS, LATE_S);
    const queries = () => service.metric('hotel_api_cache_answers_total', { tier: 'postgres' });
    const before = await queries();
    await within(
      10_000,
      () => service.get(PATH).then(queries),
      (now) => expect(now).toBe(before + 1),
    );
    await service.get(PATH);
    expect(await queries()).toBe(before + 2);
  });

  it('and PostgreSQL becomes unavailable later, a hotel or key that may have changed before is not served', async () => {
    const silentSinceMs = performance.now();
    const revoked = service.narrowKey;
    expect((await service.get('/hotels/deleted', { key: revoked })).status).toBe(200);
    await service.sql`delete from hotels where id = 'deleted'`;
    await service.sql`update api_keys set revoked_at = now() where key_sha256 = decode(${hashOf(revoked)}, 'hex')`;
    // PostgreSQL answers for longer than a feed on a dead connection needs to come back
    await vi.waitUntil(
      async () => {
        expect((await service.get(PATH)).status).toBe(200);
        return performance.now() - silentSinceMs > 6_000;
      },
      { timeout: 60_000 },
    );
    await proxy.reject();
    expect((await service.get('/hotels/deleted')).status).toBe(503);
    expect((await service.get(PATH, { key: revoked })).status).toBe(503);
  });
});
