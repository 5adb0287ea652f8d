import { disturbing, type Kind, type Scene } from './disturbing.ts';
import { kill } from './instance.ts';
import type { Served } from './system.ts';

export const INSTANCE_FAULTS = {
  'primary frozen': frozen({ primary: true }),
  'worker frozen': frozen({ workers: 0 }),
  'instance frozen': frozen({ primary: true, workers: true }),
  'worker killed': {
    uses: 'instance',
    run: disturbing(({ targets, step }) =>
      Promise.all(targets.map(({ instance }) => instance.signal('SIGKILL', { workers: step.hours + 30 }))),
    ),
  },
  'primary killed': {
    uses: 'instance',
    run: disturbing(
      ({ targets }) => Promise.all(targets.map(({ instance }) => instance.kill())),
      ({ targets }) => started(targets),
    ),
  },
  'instance restarted': {
    uses: 'instance',
    run: disturbing(
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
  const run = async (scene: Scene) => {
    const pids: number[] = [];
    const freeze = async () => {
      for (const { instance } of scene.targets) pids.push(...(await instance.signal('SIGSTOP', which)));
    };
    const thaw = () => {
      for (const pid of pids) kill(pid, 'SIGCONT');
    };
    await disturbing(freeze, thaw)(scene);
  };
  return { uses: 'instance', run };
}

async function started(targets: Served[]): Promise<void> {
  for (const { instance } of targets) {
    await instance.start();
    await instance.ready();
  }
}
