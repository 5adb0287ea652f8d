import { beforeEach, describe, expect, it } from 'vitest';
import {
  ENDLESS_MS,
  FROZEN_MS,
  LivenessWatch,
  type MainThread,
  mainThreadOf,
  STOPPED_MS,
} from './silence.ts';

const LOOK_EVERY_MS = 250;

let silence: LivenessWatch;
let nowMs: number;

beforeEach(() => {
  nowMs = 5_000;
  silence = new LivenessWatch(nowMs);
});

/** How long it takes until the worker is ended, at most `untilMs`; it uses this share of the time. */
function endedAfterMs(share: number, untilMs = 100_000, tellsNothing = false): number {
  const beganMs = nowMs;
  while (nowMs - beganMs < untilMs) {
    nowMs += LOOK_EVERY_MS;
    const processorMs = 700 + Math.floor(((nowMs - beganMs) * share) / 10) * 10;
    const look = (): MainThread | undefined => (tellsNothing ? undefined : { stopped: false, processorMs });
    if (silence.isFinal(nowMs, FROZEN_MS, look)) return nowMs - beganMs;
  }
  return Number.POSITIVE_INFINITY;
}

describe('a worker that is silent', () => {
  it('and gets nothing done is ended when it has been for too long', () => {
    expect(endedAfterMs(0)).toBe(FROZEN_MS + LOOK_EVERY_MS);
  });

  it('and of which the system tells nothing is ended likewise', () => {
    expect(endedAfterMs(1, 100_000, true)).toBe(FROZEN_MS + LOOK_EVERY_MS);
  });

  it.each([1, 0.5, 0.05])('and uses %d of a processor is not, until it has used too much of it', (share) => {
    const ms = endedAfterMs(share, 1_000_000);
    expect(ms).toBeGreaterThan(ENDLESS_MS / share);
    expect(ms).toBeLessThan(STOPPED_MS + 2 * LOOK_EVERY_MS + ENDLESS_MS / share + 500 / share);
  });

  it('may be busy again and again when it speaks in between', () => {
    for (let i = 0; i < 10; i++) {
      expect(endedAfterMs(1, 8_000)).toBe(Number.POSITIVE_INFINITY);
      silence.broken(nowMs);
    }
    expect(endedAfterMs(0)).toBe(FROZEN_MS + LOOK_EVERY_MS);
  });

  it('is ended when it freezes after having been busy', () => {
    endedAfterMs(1, 5_000);
    const used: MainThread = { stopped: false, processorMs: 700 + 5_000 };
    expect(silence.isFinal(nowMs + FROZEN_MS, FROZEN_MS, () => used)).toBe(false);
    expect(silence.isFinal(nowMs + FROZEN_MS + 1, FROZEN_MS, () => used)).toBe(true);
  });

  it('and stopped is ended without further delay', () => {
    const stopped = () => ({ stopped: true, processorMs: 0 });
    expect(silence.isFinal(nowMs + STOPPED_MS, FROZEN_MS, stopped)).toBe(false);
    expect(silence.isFinal(nowMs + STOPPED_MS + 1, FROZEN_MS, stopped)).toBe(true);
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

it('of a process that is not there nothing is told', () => {
  expect(mainThreadOf(2 ** 30)).toBeUndefined();
});
