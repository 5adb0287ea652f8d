import type { FaultResults, FaultStep, Kind } from './fault-kinds.ts';
import { INSTANCE_FAULTS } from './instance-faults.ts';
import { POSTGRES_FAULTS } from './postgres-faults.ts';
import { REDIS_FAULTS } from './redis-faults.ts';
import type { FaultName } from './steps.ts';
import type { System } from './system.ts';

const FAULTS: Record<FaultName, Kind> = { ...REDIS_FAULTS, ...POSTGRES_FAULTS, ...INSTANCE_FAULTS };

/** Runs faults. Of faults with the same resource, one waits for the other. */
export class Faults {
  readonly #system: System;
  readonly #left: FaultResults = {};
  readonly #running = new Map<string, Promise<unknown>>();

  constructor(system: System) {
    this.#system = system;
  }

  /** Resolves when the fault has ended. */
  async run(step: FaultStep): Promise<void> {
    const { uses, run } = FAULTS[step.fault];
    const targets = this.#system.served
      .slice(0, 2)
      .filter((_, i) => step.instance === 2 || step.instance === i);
    const names = uses === 'instance' ? targets.map(({ instance }) => instance.name) : [uses];
    const before = names.map((name) => this.#running.get(name));
    const done = Promise.all(before).then(() =>
      run({ system: this.#system, results: this.#left, step, targets }),
    );
    for (const name of names)
      this.#running.set(
        name,
        done.catch(() => {}),
      );
    await done;
  }
}
