import { expect, it, onTestFinished } from 'vitest';
import { linesOf } from '../support/log-lines.ts';
import { postgresClient, waitingForHotels } from '../support/postgres-client.ts';
import { insertKey } from '../support/rows.ts';
import { startService } from '../support/service.ts';

const CACHED = Array.from({ length: 900 }, (_, i) => `cached-${i}`);
const COLD = Array.from({ length: 100 }, (_, i) => `cold-${i}`);

it('a locked table is no outage: what is cached and other tables are read, and the log names the sessions', async () => {
  const service = await startService({
    redis: false,
    hotels: [...CACHED, ...COLD].map((id) => ({ id })),
    // a query waits for a lock half as long
    env: { DATABASE_TIMEOUT_MS: '2000' },
  });
  const { sql } = service;
  const batch = (ids: string[]) => service.post('/hotels/batch', { ids });
  expect((await batch(CACHED)).json()).toHaveLength(900);
  await sql`grant pg_read_all_stats to hotel_api_serve`;
  onTestFinished(async () => void (await sql`revoke pg_read_all_stats from hotel_api_serve`));
  const reader = postgresClient(service.database.ownerUrl);
  await reader`begin`;
  await reader`select from hotels limit 1`;
  const [blocker] = await reader`select pg_backend_pid() as pid`;
  const application = 'nightly reload';
  const holder = postgresClient(service.database.ownerUrl, { connection: { application_name: application } });
  const [backend] = await holder`select pg_backend_pid() as pid`;
  const altered = Promise.all([holder`alter table hotels add column secret text default 'hidden'`]);
  await expect.poll(() => waitingForHotels(sql)).toHaveLength(1);

  const missed = await batch([...CACHED, ...COLD]);
  expect([missed.status, missed.json(), missed.headers['retry-after']]).toEqual([
    503,
    { error: 'Service unavailable' },
    '1',
  ]);
  // for longer than one query waits, from many clients
  for (let round = 0; round < 3; round++) {
    const key = await insertKey(sql, []);
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
  const rejected = await service.samples('hotel_api_requests_rejected_total');
  expect(rejected.filter(({ value }) => value > 0)).toMatchObject([
    { labels: { reason: 'postgres_locked' }, value: 1 + 3 * 20 },
  ]);
  expect(await service.metric('hotel_api_log_current')).toBe(1);
  // of a statement only the first word
  const lock = { ...backend, table: 'hotels', application, statement: 'alter', blockedBy: [blocker!.pid] };
  const lines = () => linesOf(service.logs(), 'table locked');
  await expect.poll(lines).toMatchObject([{ level: 'error', locks: [lock] }]);
  expect(service.logs().join('\n')).not.toContain('hidden');

  await reader`commit`;
  await altered;
  expect((await batch([...CACHED, ...COLD])).json()).toHaveLength(1_000);
  expect(await service.metric('hotel_api_breaker_openings_total', { dependency: 'postgres' })).toBe(0);
});
