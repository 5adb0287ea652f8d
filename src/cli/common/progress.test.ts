import { afterEach, expect, test, vi } from 'vitest';
import { count, Progress } from './progress.ts';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('prints a line every five seconds without a terminal', () => {
  const written: string[] = [];
  const stderr = { write: (text: string) => written.push(text), isTTY: false };
  vi.useFakeTimers();
  vi.stubGlobal('process', Object.create(process, { stderr: { value: stderr } }));
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
