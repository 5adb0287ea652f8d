import { setTimeout as sleep } from 'node:timers/promises';
import type { Step } from './steps.ts';
import type { Served, System } from './system.ts';

export type FaultStep = Extract<Step, { do: 'fault' }>;

/** What faults of one episode leave for later ones. */
export interface Left {
  folder?: string;
  hasTables?: true;
  hasCopy?: true;
  redisDump?: string;
}

/** What a fault needs to know. */
export interface Scene {
  system: System;
  left: Left;
  step: FaultStep;
  targets: Served[];
}

/** How something is broken and mended. */
export interface Kind {
  /** what cannot be broken in two ways at once */
  uses: 'redis' | 'postgres' | 'instance' | 'paths to redis' | 'paths to postgres';
  run: (scene: Scene) => Promise<unknown>;
}

/** Notes that these are broken until the work is done; `unreachable`: they cannot ask PostgreSQL meanwhile. */
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

/** Of all, and PostgreSQL can be asked. */
export const disturbing =
  (begin: (scene: Scene) => unknown, end: (scene: Scene) => unknown = () => {}) =>
  async (scene: Scene) =>
    broken(scene, scene.system.served, [], async () => {
      await begin(scene);
      await sleep(scene.step.forMs);
      await end(scene);
    });

/** Of all; those that the fault is about cannot ask PostgreSQL. */
export const cuttingOff =
  (begin: (scene: Scene) => unknown, end: (scene: Scene) => unknown) => async (scene: Scene) =>
    broken(scene, scene.system.served, scene.targets, async () => {
      await begin(scene);
      await sleep(scene.step.forMs);
      await end(scene);
    });

/** Nobody can ask PostgreSQL, and what was committed may be lost. */
export const losing = (work: (scene: Scene) => Promise<unknown>) => async (scene: Scene) => {
  const { served, databases } = scene.system;
  await broken(scene, served, served, async () => {
    for (const database of databases) database.close();
    await work(scene);
    for (const database of databases) await database.reopen();
  });
};

/** A fault of the way of some instances to a server. */
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
