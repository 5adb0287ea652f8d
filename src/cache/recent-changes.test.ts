import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RecentChanges } from './recent-changes.ts';

let recent: RecentChanges;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  recent = new RecentChanges();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a load', () => {
  it('that began before a change of its key may not be stored', () => {
    const began = recent.position;
    recent.note('h:a', 5);
    expect(recent.mayStore('h:a', began)).toBe(false);
  });

  it('that began after the change may be stored', () => {
    recent.note('h:a', 5);
    expect(recent.mayStore('h:a', recent.position)).toBe(true);
  });

  it('is independent of changes of other keys', () => {
    const began = recent.position;
    recent.note('h:b', 5);
    expect(recent.mayStore('h:a', began)).toBe(true);
  });

  it('is compared with the last of several changes', () => {
    recent.note('h:a', 5);
    const began = recent.position;
    recent.note('h:a', 6);
    expect(recent.mayStore('h:a', began)).toBe(false);
    expect(recent.mayStore('h:a', recent.position)).toBe(true);
  });

  it('of any key that began before noteAll() may not be stored', () => {
    const began = recent.position;
    recent.noteAll();
    expect(recent.mayStore('h:a', began)).toBe(false);
    expect(recent.mayStore('h:a', recent.position)).toBe(true);
  });
});

describe('a version that a cache holds', () => {
  it('is outdated only if a newer one was received', () => {
    recent.note('h:a', 5);
    expect([4, 5, 6].map((version) => recent.isOutdated('h:a', version))).toEqual([true, false, false]);
    expect(recent.isOutdated('h:b', 1)).toBe(false);
  });

  it('stays outdated when an older change is received later', () => {
    recent.note('h:a', 5);
    recent.note('h:a', 3);
    expect(recent.isOutdated('h:a', 4)).toBe(true);
  });

  it('is not outdated by a change that carries no version', () => {
    recent.note('c:X', 0);
    expect(recent.isOutdated('c:X', 0)).toBe(false);
  });
});

describe('changes', () => {
  it('are remembered for 30 s at least', () => {
    // the last moment of the first half
    vi.advanceTimersByTime(29_999);
    const began = recent.position;
    recent.note('h:a', 5);
    vi.advanceTimersByTime(1);
    recent.note('h:b', 5);
    vi.advanceTimersByTime(29_999);
    recent.note('h:c', 5);
    expect(recent.mayStore('h:a', began)).toBe(false);
    expect(recent.isOutdated('h:a', 4)).toBe(true);
  });

  it('are dropped eventually', () => {
    for (let second = 0; second < 600; second++) {
      for (let i = 0; i < 10; i++) recent.note(`h:${second}-${i}`, 1);
      vi.advanceTimersByTime(1_000);
    }
    expect(recent.size).toBeLessThanOrEqual(600);
  });
});
