import { setTimeout as sleep } from 'node:timers/promises';
import type { Step } from './steps.ts';
import type { Served, System } from './system.ts';

export type FaultStep = Extract<Step, { do: 'fault' }>;

/** Results of faults of an episode for later ones. */
export interface Left {
  folder?: string;
  hasTables?: true;
  hasCopy?: true;
  redisDump?: string;
}

/** Context of a fault. */
export interface Scene {
  system: System;
  left: Left;
  step: FaultStep;
  targets: Served[];
}

/** Kind of fault. */
export interface Kind {
  /** resource that only one fault may affect at a time */
  uses: 'redis' | 'postgres' | 'instance' | 'paths to redis' | 'paths to postgres';
  run: (scene: Scene) => Promise<unknown>;
}

/** Notes a fault of these instances until `work` is done; `unreachable`: they cannot query PostgreSQL. */
export async function broken(
  { step }: Scene,
  served: Served[],
  unreachable: Served[],
  work: () => Promise<unknown>,
): Promise<void> {
  const nowMs = performance.now();
  const noted = served.map((one) => one.bounds.begin(step.fault, unreachable.includes(one), nowMs));
  await work();
  for (const one of noted) one.untilMs = performance.now();
}

/** Fault of all instances, with PostgreSQL reachable. */
export const disturbing =
  (begin: (scene: Scene) => unknown, end: (scene: Scene) => unknown = () => {}) =>
  async (scene: Scene) =>
    broken(scene, scene.system.served, [], async () => {
      await begin(scene);
      await sleep(scene.step.forMs);
      await end(scene);
    });

/** Fault of all instances, in which the affected ones cannot query PostgreSQL. */
export const cuttingOff =
  (begin: (scene: Scene) => unknown, end: (scene: Scene) => unknown) => async (scene: Scene) =>
    broken(scene, scene.system.served, scene.targets, async () => {
      await begin(scene);
      await sleep(scene.step.forMs);
      await end(scene);
    });

/** Fault in which PostgreSQL is unreachable, and commits may be lost. */
export const losing = (work: (scene: Scene) => Promise<unknown>) => async (scene: Scene) => {
  const { served, databases } = scene.system;
  await broken(scene, served, served, async () => {
    for (const database of databases) database.close();
    await work(scene);
    for (const database of databases) await database.reopen();
  });
};

/** Fault of the paths of some instances to a server. */
export function path(
  to: 'redis' | 'postgres',
  what: 'blackout' | 'delay' | 'strand' | 'reset',
  beganWith?: string,
): Kind {
  const begin = ({ targets, step }: Scene) => {
    for (const { instance } of targets) {
      const proxy = instance.paths[to];
      if (what === 'blackout') proxy.blackout(beganWith);
      else if (what === 'delay') proxy.delay(step.forMs % 250);
      else proxy[what]();
    }
  };
  const end = async ({ targets }: Scene) => {
    if (what === 'strand' || what === 'reset') return;
    for (const { instance } of targets) await instance.paths[to].heal();
  };
  const isCutOff = to === 'postgres' && what === 'blackout' && beganWith === undefined;
  return { uses: `paths to ${to}`, run: (isCutOff ? cuttingOff : disturbing)(begin, end) };
}
