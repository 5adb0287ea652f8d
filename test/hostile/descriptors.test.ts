import { expect, it } from 'vitest';
import { descriptorsOf, workersOf } from '../support/processes.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { startService } from '../support/service.ts';
import { expectAnswered, SteadyLoad } from '../support/steady-load.ts';

const LIMIT = 512;
/** More connections than two workers with this limit can hold, however the system distributes them. */
const IDLE = 1_500;

it('more idle connections than descriptors end no worker, and established connections are served', async () => {
  const service = await startService({
    workers: 2,
    hotels: [{ id: 'h1' }, { id: 'h2' }],
    command: ['sh', '-c', `ulimit -n ${LIMIT}; exec "$0" src/main.ts serve`, process.execPath],
  });
  const pids = await workersOf(service, 2);
  expect(service.logs().some((line) => line.includes('raise ulimit -n'))).toBe(true);
  const { text: answer } = await service.get('/hotels/h1');
  const established = new SteadyLoad(service, [{ path: '/hotels/h1', answer }], 16);
  await established.answers(100);

  const idle = Array.from({ length: IDLE }, () => new RawConnection(service.port));
  await expect.poll(() => idle.filter(({ isClosed }) => isClosed).length).toBeGreaterThan(IDLE / 4);
  await established.answers(200);
  expect(await service.metric('hotel_api_connections_rejected_total')).toBeGreaterThan(0);
  expect(await service.metric('hotel_api_connections')).toBeLessThanOrEqual(
    await service.metric('hotel_api_connections_max'),
  );
  for (const pid of pids) expect((await descriptorsOf(pid)).length).toBeLessThan(LIMIT);
  // the reserved descriptors suffice to reopen a whole pool
  await service.sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`;
  await established.answers(200);
  await expectAnswered(established);
  expect(await service.metric('hotel_api_worker_restarts_total')).toBe(0);
  expect((await service.workerPids()).sort()).toEqual(pids);

  for (const connection of idle) connection.close();
  const status = async () => (await service.get('/hotels/h2').catch(() => undefined))?.status;
  await expect.poll(status).toBe(200);
});
