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

test('prints a line every five seconds without a terminal', () => {
  const progress = new Progress('reading x', 1_000_000, count('hotel'));
  for (let second = 0; second <= 12; second++) {
    progress.at(10_000 * second);
    vi.advanceTimersByTime(1_000);
  }
  expect(written).toEqual([
    'reading x: 5 %, 50,000 hotels of 1,000,000 hotels\n',
    'reading x: 10 %, 100,000 hotels of 1,000,000 hotels\n',
  ]);
});
