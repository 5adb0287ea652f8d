import { expect, it } from 'vitest';
import { read } from '../documents/files.ts';
import { needs } from '../support/needs.ts';
import { startService } from '../support/service.ts';
import { Operator } from './operator.ts';

await needs('bash', 'curl', 'psql', 'redis-cli', 'redis-server');

// a blocked request waits longer than it takes to show it
const service = await startService({ hotels: [{ id: 'a' }], env: { DATABASE_TIMEOUT_MS: '60000' } });
const operator = await Operator.set({
  MONITOR_URL: service.database.ownerUrl,
  OWNER_URL: service.database.ownerUrl,
  CACHE_ADMIN_URL: service.redisDatabase!.url,
  HOTEL_API_KEY: service.fullKey,
  HOTEL_API_URL: service.url,
  HOTEL_ID: 'a',
});
const section = /^## Diagnosis\n(.*?)^## /ms.exec(read('docs/operations/runbook.md'))![1]!;
/** lines of the section, without those of kubectl */
const lookUps = [...section.matchAll(/^ *```sh\n(.*?)^ *```/gms)]
  .map(([, lines]) => lines!.replaceAll(/^kubectl .*\n/gm, ''))
  .filter((lines) => lines !== '');

/** Runs the look-up that contains `text`. Returns what it prints. */
async function lookUp(text: string): Promise<string> {
  const found = lookUps.filter((lines) => lines.includes(text));
  expect(found).toHaveLength(1);
  return operator.types(found[0]!.replace(':9090/', `:${service.adminPort}/`));
}

it('the state of a pod, its sessions by purpose, the log, replicas and Redis are shown', async () => {
  await expect.poll(() => lookUp('log_current')).toMatch(/^hotel_api_log_current(\{.*\})? 1$/m);
  const printed = await lookUp("like 'hotel-api %'");
  for (const purpose of ['follow', 'serve']) expect(printed).toContain(`hotel-api ${purpose} `);
  expect(await lookUp('hotel_api_poll')).toMatch(/is_unread.* \| [ft] *\n\(1 row\)/s);
  expect(await lookUp('pg_stat_replication')).toMatch(/replay_lag/);
  expect(await lookUp('redis-cli')).toMatch(/^PONG\n.*^maxmemory_policy:/ms);
});

it.each([
  ['the lock of the sequencer', 'hotel_api_sequencer', 'hotel_api_sequencer in exclusive mode', ''],
  ['a lock, and the one that waits', 'pg_blocking_pids', 'hotels in access exclusive mode', '.*\\{PID\\}'],
])('the session that holds %s is shown', async (_, text, lock, waiting) => {
  const { requested } = await service.sql.begin(async (sql) => {
    const [{ pid }] = (await sql`select pg_backend_pid() as pid`) as [{ pid: number }];
    await sql.unsafe(`lock table ${lock}`);
    // a hotel that is in no cache
    const requested = service.get(`/hotels/${text}`);
    const shown = `\n *PID [^\n]* idle in transaction ${waiting}`.replaceAll('PID', String(pid));
    await expect.poll(() => lookUp(text)).toMatch(new RegExp(shown, 's'));
    return { requested };
  });
  expect((await requested).status).toBe(404);
});

it('a hotel is compared with its row, and everything is read again', async () => {
  expect(await lookUp('x-api-key')).toMatch(/^.*"id":"a".*\n.*"id":"a".*\n$/);
  expect(await lookUp('hotel_api_wrong_triggers')).toContain('(0 rows)');
  expect(await lookUp('hotel_api_invalidate')).toContain('(1 row)');
});
