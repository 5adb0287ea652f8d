import { expect, it } from 'vitest';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { startService } from '../support/service.ts';

await needs('redis');

it('lost rights, and a setting that prevents the log from being followed, end without a restart', async () => {
  const service = await startService({ hotels: [{ id: 'cached', name: 'One' }] });
  const { sql, database } = service;
  let n = 0;
  const statusOf = async (id: string) => (await service.get(`/hotels/${id}`)).status;
  const coldStatus = () => statusOf(`cold-${++n}`);
  const isCurrent = () => service.metric('hotel_api_log_current');
  /** Ends connections of the service, so that the next ones are opened with the present rights and settings. */
  const endSessions = (names = 'hotel-api %') => sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name like ${names}`;
  const expectNormal = async () => {
    await expect.poll(coldStatus).toBe(404);
    await expect.poll(isCurrent).toBe(1);
    const name = `v${++n}`;
    await sql`update hotels set name = ${name}`;
    await expect.poll(async () => (await service.get('/hotels/cached')).json().name).toBe(name);
  };
  expect(await statusOf('cached')).toBe(200);

  // a login that may no longer connect is an outage
  await sql`revoke connect on database ${sql(database.name)} from public`;
  await endSessions();
  await expect.poll(coldStatus).toBe(503);
  await expect.poll(() => service.metric('hotel_api_breaker_open', { dependency: 'postgres' })).toBe(1);
  for (let i = 0; i < 20; i++) expect([await statusOf('cached'), await coldStatus()]).toEqual([200, 503]);
  await sql`grant connect on database ${sql(database.name)} to public`;
  await expectNormal();

  await sql`alter database ${sql(database.name)} set search_path = nowhere`;
  await endSessions();
  await expect.poll(isCurrent).toBe(0);
  const reasons = () => linesOf(service.logs(), 'log cannot be followed').map(({ reason }) => reason);
  await expect.poll(reasons).toContainEqual(expect.stringContaining('hotel_api_poll'));
  await sql`alter database ${sql(database.name)} reset search_path`;
  // the pool of a worker keeps its connections
  await endSessions('hotel-api serve');
  await expectNormal();
});
