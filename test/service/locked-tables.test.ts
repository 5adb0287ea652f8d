import type { Sql } from 'postgres';
import { beforeEach, expect, it } from 'vitest';
import { linesOf } from '../support/log-lines.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { insertKey } from '../support/rows.ts';
import { type Service, startService, stopAfterTest } from '../support/service.ts';

const CACHED = Array.from({ length: 900 }, (_, i) => `cached-${i}`);
const COLD = Array.from({ length: 100 }, (_, i) => `cold-${i}`);

let service: Service;
let holder: Sql;

beforeEach(async () => {
  service = stopAfterTest(
    await startService({
      redis: false,
      hotels: [...CACHED, ...COLD].map((id) => ({ id })),
      // a query waits for a lock half as long
      env: { DATABASE_TIMEOUT_MS: '2000' },
    }),
  );
  expect((await batch(CACHED)).json()).toHaveLength(900);
  holder = postgresClient(service.database.ownerUrl, {
    connection: { application_name: 'nightly reload' },
  });
});

const batch = (ids: string[]) => service.post('/hotels/batch', { ids });
const rejected = (reason = 'postgres_locked') =>
  service.metric('hotel_api_requests_rejected_total', { reason });
const openings = () => service.metric('hotel_api_breaker_openings_total', { dependency: 'postgres' });
const lines = () => linesOf(service.logs(), 'table locked');

it('a locked table is no outage: what is cached and other tables are read, and the log names the session', async () => {
  await holder`begin`;
  await holder`lock table hotels in access exclusive mode`;
  const [{ pid }] = (await holder`select pg_backend_pid() as pid`) as unknown as [{ pid: number }];

  const missed = await batch([...CACHED, ...COLD]);
  expect([missed.status, missed.json(), missed.headers['retry-after']]).toEqual([
    503,
    { error: 'Service unavailable' },
    '1',
  ]);
  // for longer than one query waits, from many clients
  for (let round = 0; round < 3; round++) {
    const key = await insertKey(service.sql, []);
    const answers = await Promise.all([
      batch(CACHED),
      // another table
      service.get('/hotels/cached-1', { key }),
      service.get('/changes?wait=0&after=nothing'),
      service.get('/key'),
      ...COLD.slice(0, 20).map((id) => service.get(`/hotels/${id}`)),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 200, ...Array(20).fill(503)]);
  }
  expect(await rejected()).toBe(1 + 3 * 20);
  for (const reason of ['postgres_unavailable', 'postgres_timeout', 'postgres_queue'])
    expect(await rejected(reason)).toBe(0);
  expect(await openings()).toBe(0);
  expect(await service.metric('hotel_api_log_current')).toBe(1);
  await expect.poll(lines).toMatchObject([
    {
      level: 'error',
      locks: [{ table: 'hotels', pid, application: 'nightly reload', statement: null, blockedBy: [] }],
    },
  ]);

  await holder`commit`;
  expect((await batch([...CACHED, ...COLD])).json()).toHaveLength(1_000);
  expect(await openings()).toBe(0);
});

it('the session that a waiting lock waits for is named too, and statements only by their first word', async () => {
  await service.sql`grant pg_read_all_stats to hotel_api_serve`;
  try {
    const reader = postgresClient(service.database.ownerUrl);
    await reader`begin`;
    await reader`select from hotels limit 1`;
    const [{ pid }] = (await reader`select pg_backend_pid() as pid`) as unknown as [{ pid: number }];
    const altered = Promise.all([holder`alter table hotels add column secret text default 'hidden'`]);
    let n = 0;
    await expect.poll(async () => (await service.get(`/hotels/cold-${n++}`)).status).toBe(503);
    await expect
      .poll(lines)
      .toMatchObject([{ locks: [{ table: 'hotels', statement: 'alter', blockedBy: [pid] }] }]);
    await reader`commit`;
    await altered;
    await expect.poll(async () => (await service.get('/hotels/cold-99')).status).toBe(200);
    expect(service.logs().join('\n')).not.toContain('hidden');
    expect(await openings()).toBe(0);
  } finally {
    await service.sql`revoke pg_read_all_stats from hotel_api_serve`;
  }
});
