import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { count, Progress } from './progress.ts';

let written: string[];
beforeEach(() => {
  written = [];
  vi.useFakeTimers();

  vi.stubGlobal(
    'process',
    Object.create(process, {
      stderr: { value: { write: (text: string) => written.push(text), isTTY: false } },
    }),
  );
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('prints a line every five seconds without a terminal, with the rate and the remaining time', () => {
  const progress = new Progress('reading x', 1_000_000, count('hotel'));
  for (let second = 0; second <= 12; second++) {
    progress.at(10_000 * second);
    vi.advanceTimersByTime(1_000);
  }
  expect(written).toEqual([
    'reading x: 5 %, 50,000 of 1,000,000 hotels, 10,000 hotels/s, 1 min 35 s left\n',
    'reading x: 10 %, 100,000 of 1,000,000 hotels, 10,000 hotels/s, 1 min 30 s left\n',
  ]);
});
