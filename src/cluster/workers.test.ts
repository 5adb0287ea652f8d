import { expect, it, vi } from 'vitest';
import { VirtualClock } from '../lib/clock.fixture.ts';
import { Metrics } from '../observability/metrics.ts';
import { Workers } from './workers.ts';

it.each([
  ['emits', '/none', 'ENOENT'],
  ['throws', 'null\0', 'null bytes'],
])(
  'a worker that cannot be started is reported, and started again after growing pauses: %s',
  async (_, path, reason) => {
    const { execPath } = process;
    const clock = new VirtualClock();
    const failed = vi.fn();
    const ended = vi.fn();
    process.execPath = path;
    const workers = new Workers(1, {
      startOf: () => ({}) as never,
      metrics: new Metrics(),
      events: { workerFailed: failed, workerEnded: ended } as never,
      ...{ onUsage: () => {}, onLateAnswer: () => {}, countWindow: undefined },
    });
    await clock.pass(1_000);
    process.execPath = execPath;
    expect(failed).toHaveBeenLastCalledWith(undefined, expect.stringContaining(reason));
    expect(ended.mock.calls.map(([{ restartInMs }]) => restartInMs)).toEqual([0, 100, 200, 400, 800]);
    await workers.stop(0);
  },
);
