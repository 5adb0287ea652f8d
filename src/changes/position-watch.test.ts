import { beforeEach, expect, it, vi } from 'vitest';
import { PositionWatch } from './position-watch.ts';

const HISTORY = 'history';
const at = (position: number, transaction = `1${position}`) => ({ history: HISTORY, position, transaction });

let watch: PositionWatch;
let isCurrent: boolean;

beforeEach(() => {
  vi.useFakeTimers();
  isCurrent = true;
  watch = new PositionWatch({ isCurrent: () => isCurrent, isCurrentFor: () => isCurrent });
  watch.follow(HISTORY);
  watch.announced(at(5), false);
});

it('a cursor is the last one if it is the applied cursor, and nothing behind it is unknown', () => {
  expect(watch.isLast(at(5))).toBe(true);
  expect(watch.isLast({ ...at(5), history: 'another' })).toBe(false);
  // those of a lost future
  for (const lost of [at(5, '99'), at(6)]) expect(watch.isLast(lost)).toBe(false);
  isCurrent = false;
  expect(watch.isLast(at(5))).toBe(false);
  isCurrent = true;
  // ids are still being listed
  watch.announced(at(7), true);
  expect(watch.isLast(at(7))).toBe(false);
  watch.announced(at(8), false);
  expect(watch.isLast(at(8))).toBe(true);
  watch.follow('another');
  expect(watch.isLast({ ...at(8), history: 'another' })).toBe(false);
});

// test/contract/changes.test.ts has waits that end with a position, at once if it is known
it('a wait ends within a second after keys have changed, once for many changes', async () => {
  const [wait, settling] = [watch.laterThan(5, 30_000), watch.laterThan(Infinity, 30_000)];
  for (let i = 0; i < 20; i++) watch.keysChanged();
  vi.advanceTimersByTime(1_000);
  await wait.over;
  const next = watch.laterThan(5, 30_000);
  const ended = vi.fn();
  for (const { over } of [next, settling]) void over.then(ended);
  vi.advanceTimersByTime(1_000);
  await vi.advanceTimersByTimeAsync(0);
  expect(ended).not.toHaveBeenCalled();
  watch.release();
  await Promise.all([next.over, settling.over]);
  expect(vi.getTimerCount()).toBe(0);
});
