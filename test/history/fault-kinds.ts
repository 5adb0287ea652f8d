import { setTimeout as sleep } from 'node:timers/promises';
import type { Step } from './steps.ts';
import type { Served, System } from './system.ts';

export type FaultStep = Extract<Step, { do: 'fault' }>;

/** Results of faults of an episode for later ones. */
export interface FaultResults {
  folder?: string;
  hasTables?: true;
  hasCopy?: true;
  redisDump?: string;
  /** values of Redis by their names, with the rest of their lifetimes in ms */
  redisValues?: Map<string, { value: Buffer; ttlMs: number }>;
}

/** Context of a fault. */
export interface FaultContext {
  system: System;
  results: FaultResults;
  step: FaultStep;
  targets: Served[];
}

/** Kind of fault. */
export interface Kind {
  /** resource that only one fault may affect at a time */
  uses: 'redis' | 'postgres' | 'instance' | 'paths to redis' | 'paths to postgres';
  run: (context: FaultContext) => Promise<unknown>;
}

/** Notes a fault of all instances until `work` is done; `unreachable`: they cannot query PostgreSQL. */
export async function recordFault(
  { system, step }: FaultContext,
  unreachable: Served[],
  work: () => Promise<unknown>,
): Promise<void> {
  const nowMs = performance.now();
  const records = system.served.map((one) => one.bounds.begin(step.fault, unreachable.includes(one), nowMs));
  await work();
  for (const one of records) one.untilMs = performance.now();
}

/** Fault of all instances, in which PostgreSQL is reachable for all but `unreachable`. */
export const onAllInstances =
  (
    begin: (context: FaultContext) => unknown,
    end: (context: FaultContext) => unknown = () => {},
    unreachable: (context: FaultContext) => Served[] = () => [],
  ) =>
  async (context: FaultContext) =>
    recordFault(context, unreachable(context), async () => {
      await begin(context);
      await sleep(context.step.forMs);
      await end(context);
    });

/** Fault in which PostgreSQL is unreachable, and commits may be lost. */
export const losingCommits =
  (work: (context: FaultContext) => Promise<unknown>) => async (context: FaultContext) => {
    const { served, databases } = context.system;
    await recordFault(context, served, async () => {
      for (const database of databases) database.close();
      await work(context);
      for (const database of databases) await database.reopen();
    });
  };

/** Fault of the paths of some instances to a server. */
export function path(
  to: 'redis' | 'postgres',
  what: 'blackout' | 'delay' | 'throttle' | 'halfOpen' | 'reset',
  beganWith?: string,
): Kind {
  const begin = ({ targets, step }: FaultContext) => {
    for (const { instance } of targets) {
      const proxy = instance.paths[to];
      if (what === 'blackout') proxy.blackout(beganWith);
      else if (what === 'delay') proxy.delay(step.forMs % 250, beganWith);
      // bytes a second
      else if (what === 'throttle') proxy.throttle(500 + step.forMs, beganWith);
      else proxy[what]();
    }
  };
  const end = async ({ targets }: FaultContext) => {
    if (what === 'halfOpen' || what === 'reset') return;
    for (const { instance } of targets) await instance.paths[to].heal();
  };
  const isCutOff = to === 'postgres' && what === 'blackout' && beganWith === undefined;
  const unreachable = ({ targets }: FaultContext) => (isCutOff ? targets : []);
  return { uses: `paths to ${to}`, run: onAllInstances(begin, end, unreachable) };
}
