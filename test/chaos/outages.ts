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
  const nothing = () => {};
  return [
    {
      name: 'Redis frozen',
      unavailable: 'redis',
      begin: () => redis.server.freeze(),
      end: () => redis.server.thaw(),
    },
    {
      name: 'PostgreSQL frozen',
      unavailable: 'postgres',
      begin: () => postgres.server.freeze(),
      end: () => postgres.server.thaw(),
    },
    {
      name: 'Redis killed',
      unavailable: 'redis',
      begin: () => redis.server.kill(),
      end: () => redis.server.restart(),
    },
    {
      name: 'PostgreSQL killed',
      unavailable: 'postgres',
      begin: () => postgres.server.kill(),
      end: () => postgres.server.restart(),
    },
    { name: 'worker killed', unavailable: 'worker', begin: signalled('SIGKILL'), end: replaced },
    {
      name: 'Redis +200 ms',
      unavailable: 'redis',
      begin: () => redis.proxy.delay(200),
      end: () => redis.proxy.heal(),
    },
    {
      name: 'PostgreSQL black hole',
      unavailable: 'postgres',
      begin: () => postgres.proxy.blackout(),
      end: () => postgres.proxy.heal(),
    },
    { name: 'Redis half-open', unavailable: 'redis', begin: () => redis.proxy.halfOpen(), end: nothing },
    {
      name: 'PostgreSQL half-open',
      unavailable: 'postgres',
      begin: () => postgres.proxy.halfOpen(),
      end: nothing,
    },
    { name: 'worker frozen', unavailable: 'worker', begin: signalled('SIGSTOP'), end: replaced },
    { name: 'Redis reset', unavailable: 'redis', begin: () => redis.proxy.reset(), end: nothing },
    { name: 'PostgreSQL reset', unavailable: 'postgres', begin: () => postgres.proxy.reset(), end: nothing },
    { name: 'Redis emptied', unavailable: 'redis', begin: () => redis.client.flushall(), end: nothing },
  ];
}
