import { type FaultContext, type Kind, onAllInstances } from './fault-kinds.ts';
import { kill } from './instance.ts';
import type { Served } from './system.ts';

export const INSTANCE_FAULTS = {
  'primary frozen': frozen({ primary: true }),
  'worker frozen': frozen({ workers: 0 }),
  'instance frozen': frozen({ primary: true, workers: true }),
  'worker killed': {
    uses: 'instance',
    run: onAllInstances(({ targets, step }) =>
      Promise.all(targets.map(({ instance }) => instance.signal('SIGKILL', { workers: step.hours + 30 }))),
    ),
  },
  'primary killed': {
    uses: 'instance',
    run: onAllInstances(
      ({ targets }) => Promise.all(targets.map(({ instance }) => instance.kill())),
      ({ targets }) => started(targets),
    ),
  },
  'instance restarted': {
    uses: 'instance',
    run: onAllInstances(
      ({ targets }) => Promise.all(targets.map(({ instance }) => instance.stop())),
      ({ targets }) => started(targets),
    ),
  },
  'clock set': {
    uses: 'instance',
    run: async ({ targets, step }) => {
      for (const { clock } of targets) await clock?.set(Date.now() + step.hours * 3_600_000);
    },
  },
} satisfies Record<string, Kind>;

function frozen(which: { primary?: boolean; workers?: boolean | number }): Kind {
  const run = async (context: FaultContext) => {
    const pids: number[] = [];
    const freeze = async () => {
      for (const { instance } of context.targets) {
        instance.freezes++;
        pids.push(...(await instance.signal('SIGSTOP', which)));
      }
    };
    const thaw = () => {
      for (const pid of pids) kill(pid, 'SIGCONT');
      for (const { instance } of context.targets) instance.freezes++;
    };
    await onAllInstances(freeze, thaw)(context);
  };
  return { uses: 'instance', run };
}

async function started(targets: Served[]): Promise<void> {
  for (const { instance } of targets) {
    await instance.start();
    await instance.ready();
  }
}
