import { setTimeout as sleep } from 'node:timers/promises';
import type { Fixture } from './service-fixture.ts';

/** Fault of the soak test. */
export interface Outage {
  name: string;
  /** dependency or part that is unavailable; a worker's connections fail with it */
  unavailable: 'redis' | 'postgres' | 'worker';
  begin: () => unknown;
  /** the repair; the fault has ended when it resolves */
  end: () => unknown;
}

/** Returns the outages of a server behind a proxy. */
export const outagesOf = ({ server, proxy }: Pick<Fixture['redis'], 'server' | 'proxy'>) => ({
  frozen: { begin: () => server.freeze(), end: () => server.thaw() },
  killed: { begin: () => server.kill(), end: () => server.restart() },
  slow: { begin: () => proxy.delay(200), end: () => proxy.heal() },
  blackHole: { begin: () => proxy.blackout(), end: () => proxy.heal() },
  halfOpen: { begin: () => proxy.halfOpen(), end: () => {} },
  ending: { begin: () => proxy.endEach(), end: () => proxy.heal() },
  reset: { begin: () => proxy.reset(), end: () => {} },
});

/** Returns every kind of outage; `random` selects the workers. */
export function everyOutage({ redis, postgres, service }: Fixture, random: () => number): Outage[] {
  const started = () => service.logs().filter((line) => line.includes('"worker started"')).length;
  let startedBefore = 0;
  const signalled = (signal: NodeJS.Signals) => async () => {
    startedBefore = started();
    const pids = await service.workerPids();
    process.kill(pids[Math.floor(random() * pids.length)]!, signal);
  };
  const replaced = async () => {
    while (started() <= startedBefore) await sleep(10);
  };
  const [ofRedis, ofPostgres] = [outagesOf(redis), outagesOf(postgres)];
  return [
    { name: 'Redis frozen', unavailable: 'redis', ...ofRedis.frozen },
    { name: 'PostgreSQL frozen', unavailable: 'postgres', ...ofPostgres.frozen },
    { name: 'Redis killed', unavailable: 'redis', ...ofRedis.killed },
    { name: 'PostgreSQL killed', unavailable: 'postgres', ...ofPostgres.killed },
    { name: 'worker killed', unavailable: 'worker', begin: signalled('SIGKILL'), end: replaced },
    { name: 'Redis +200 ms', unavailable: 'redis', ...ofRedis.slow },
    { name: 'PostgreSQL black hole', unavailable: 'postgres', ...ofPostgres.blackHole },
    { name: 'Redis half-open', unavailable: 'redis', ...ofRedis.halfOpen },
    { name: 'PostgreSQL half-open', unavailable: 'postgres', ...ofPostgres.halfOpen },
    { name: 'worker frozen', unavailable: 'worker', begin: signalled('SIGSTOP'), end: replaced },
    { name: 'Redis reset', unavailable: 'redis', ...ofRedis.reset },
    { name: 'PostgreSQL reset', unavailable: 'postgres', ...ofPostgres.reset },
    { name: 'Redis emptied', unavailable: 'redis', begin: () => redis.client.flushall(), end: () => {} },
  ];
}
