import { beforeAll, expect, it } from 'vitest';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis');

let service: Service;
let n = 0;

beforeAll(async () => {
  service = await startService({ hotels: [{ id: 'cached', name: 'One' }] });
  expect(await statusOf('cached')).toBe(200);
});

const statusOf = async (id: string) => (await service.get(`/hotels/${id}`)).status;
const coldStatus = () => statusOf(`cold-${++n}`);
const alter = (what: string) => service.sql.unsafe(`alter database ${service.database.name} ${what}`);
const isCurrent = () => service.metric('hotel_api_log_current');

/** Ends connections of the service, so that the next ones are opened with the present rights and settings. */
const endSessions = (names = 'hotel-api %') => service.sql`
  select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and application_name like ${names}`;

async function expectCachedOnly(): Promise<void> {
  for (let i = 0; i < 20; i++) expect([await statusOf('cached'), await coldStatus()]).toEqual([200, 503]);
}

async function expectNormal(): Promise<void> {
  await expect.poll(coldStatus).toBe(404);
  await expect.poll(isCurrent).toBe(1);
  const name = `v${++n}`;
  await service.sql`update hotels set name = ${name}`;
  await expect.poll(async () => (await service.get('/hotels/cached')).json().name).toBe(name);
}

it('a login that may no longer connect is an outage, until it may again', async () => {
  const database = service.sql(service.database.name);
  await service.sql`revoke connect on database ${database} from public`;
  await endSessions();
  await expect.poll(coldStatus).toBe(503);
  await expect.poll(() => service.metric('hotel_api_breaker_open', { dependency: 'postgres' })).toBe(1);
  await expectCachedOnly();
  await service.sql`grant connect on database ${database} to public`;
  await expectNormal();
});

it('the log is followed after a setting that prevented it is reset, without a restart', async () => {
  await alter('set search_path = nowhere');
  await endSessions();
  await expect.poll(isCurrent).toBe(0);
  const reasons = () => linesOf(service.logs(), 'log cannot be followed').map(({ reason }) => reason);
  await expect.poll(reasons).toContainEqual(expect.stringContaining('hotel_api_poll'));
  await alter('reset search_path');
  // the pool of a worker keeps its connections
  await endSessions('hotel-api serve');
  await expectNormal();
});
