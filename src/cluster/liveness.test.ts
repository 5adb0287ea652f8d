import { beforeEach, describe, expect, it } from 'vitest';
import {
  ENDLESS_MS,
  FROZEN_MS,
  LivenessWatch,
  type MainThread,
  mainThreadOf,
  STOPPED_MS,
} from './liveness.ts';

const CHECK_EVERY_MS = 250;

let silence: LivenessWatch;
let nowMs: number;

beforeEach(() => {
  nowMs = 5_000;
  silence = new LivenessWatch(nowMs);
});

/** Returns the time until the worker is killed, at most `untilMs`; it uses this share of a processor. */
function endedAfterMs(share: number, untilMs = 100_000, isUnknown = false): number {
  const beganMs = nowMs;
  while (nowMs - beganMs < untilMs) {
    nowMs += CHECK_EVERY_MS;
    const processorMs = 700 + Math.floor(((nowMs - beganMs) * share) / 10) * 10;
    const read = (): MainThread | undefined => (isUnknown ? undefined : { stopped: false, processorMs });
    if (silence.mustEnd(nowMs, FROZEN_MS, read)) return nowMs - beganMs;
  }
  return Number.POSITIVE_INFINITY;
}

describe('a silent worker', () => {
  it('is killed after too long a time without progress', () => {
    expect(endedAfterMs(0)).toBe(FROZEN_MS + CHECK_EVERY_MS);
  });

  it('is killed likewise if the system reports nothing about it', () => {
    expect(endedAfterMs(1, 100_000, true)).toBe(FROZEN_MS + CHECK_EVERY_MS);
  });

  it.each([1, 0.5, 0.05])(
    'that uses %d of a processor is killed only after it has used too much of it',
    (share) => {
      const ms = endedAfterMs(share, 1_000_000);
      expect(ms).toBeGreaterThan(ENDLESS_MS / share);
      expect(ms).toBeLessThan(STOPPED_MS + 2 * CHECK_EVERY_MS + ENDLESS_MS / share + 500 / share);
    },
  );

  it('may be busy repeatedly if it sends messages in between', () => {
    for (let i = 0; i < 10; i++) {
      expect(endedAfterMs(1, 8_000)).toBe(Number.POSITIVE_INFINITY);
      silence.reset(nowMs);
    }
    expect(endedAfterMs(0)).toBe(FROZEN_MS + CHECK_EVERY_MS);
  });

  it('is killed when it freezes after a busy time', () => {
    endedAfterMs(1, 5_000);
    const used: MainThread = { stopped: false, processorMs: 700 + 5_000 };
    expect(silence.mustEnd(nowMs + FROZEN_MS, FROZEN_MS, () => used)).toBe(false);
    expect(silence.mustEnd(nowMs + FROZEN_MS + 1, FROZEN_MS, () => used)).toBe(true);
  });

  it('that is stopped is killed without further delay', () => {
    const stopped = () => ({ stopped: true, processorMs: 0 });
    expect(silence.mustEnd(nowMs + STOPPED_MS, FROZEN_MS, stopped)).toBe(false);
    expect(silence.mustEnd(nowMs + STOPPED_MS + 1, FROZEN_MS, stopped)).toBe(true);
  });
});

it.runIf(process.platform === 'linux')(
  'the main thread of a process is read with the time that it has used',
  () => {
    const before = mainThreadOf(process.pid)!;
    expect(before.stopped).toBe(false);
    const untilUs = process.threadCpuUsage().user + 50_000;
    while (process.threadCpuUsage().user < untilUs);
    expect(mainThreadOf(process.pid)!.processorMs).toBeGreaterThan(before.processorMs);
  },
);

it('a missing process yields no state', () => {
  expect(mainThreadOf(2 ** 30)).toBeUndefined();
});
