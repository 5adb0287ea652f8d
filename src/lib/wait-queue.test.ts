import { describe, expect, it } from 'vitest';
import { WaitQueue } from './wait-queue.ts';

const queueOf = (...items: string[]) => {
  const queue = new WaitQueue<string>(0.01, 1_000);
  for (const [i, item] of items.entries()) queue.append('me', item, 1_000, i);
  return queue;
};

describe('a wait queue', () => {
  it('is full when the queued items would take too long at the measured rate', () => {
    // a size of 1000 takes 10 ms at first
    const queue = queueOf('a', 'b', 'c');
    expect(queue.isFull('me', 29, 3)).toBe(true);
    expect(queue.isFull('me', 31, 3)).toBe(false);
    // the rate falls to a tenth, and the estimate follows
    for (let i = 1; i <= 30; i++) {
      queue.append('me', 'x', 1_000, 100 * i);
      queue.shift();
      queue.measure(100 * i);
    }
    expect(queue.isFull('me', 250, 3_000)).toBe(true);
    expect(queue.isFull('me', 310, 3_000)).toBe(false);
  });

  it('serves only owners who may, and keeps the order of the others', () => {
    const queue = new WaitQueue<string>(0, 1);
    for (const item of ['a1', 'b1', 'a2', 'c1']) queue.append(item[0]!, item, 1, 0);
    const next = (...owners: string[]) => queue.shift((owner) => owners.includes(owner))?.item;
    expect([next('b'), next('b'), next('a', 'c'), next('c')]).toEqual(['b1', undefined, 'a1', 'c1']);
    expect([queue.some((owner) => owner === 'c'), queue.some((owner) => owner === 'a')]).toEqual([
      false,
      true,
    ]);
    expect([next('a'), next('a'), queue.length]).toEqual(['a2', undefined, 0]);
  });

  it('is full when the first item has waited too long, at any rate', () => {
    const queue = queueOf('a');
    expect(queue.isFull('me', 100, 100)).toBe(false);
    expect(queue.isFull('me', 100, 101)).toBe(true);
    queue.shift();
    expect(queue.isFull('me', 100, 10_000)).toBe(false);
  });

  it('counts no time in which it was empty, and forgets the rate of an outage after a second of it', () => {
    const queue = new WaitQueue<string>(0, 1);
    queue.append('a', 'x', 1, 0);
    queue.shift();
    queue.measure(2_000);
    queue.append('a', 'x', 1, 3_000);
    expect([queue.isFull('a', 375, 3_000), queue.isFull('a', 425, 3_000)]).toEqual([true, false]);
    queue.shift();
    queue.measure(3_000);
    queue.append('a', 'x', 1, 3_500);
    expect([queue.isFull('a', 315, 3_500), queue.isFull('a', 325, 3_500)]).toEqual([true, false]);
    queue.shift();
    queue.measure(3_500);
    queue.append('a', 'x', 1, 4_501);
    expect(queue.isFull('a', 200, 4_501)).toBe(false);
  });
});

describe('a wait queue of several owners', () => {
  const queueOf = (owners: Record<string, [items: string, size: number]>, quantum = 1) => {
    const queue = new WaitQueue<string>(1, quantum);
    for (const [owner, [items, size]] of Object.entries(owners))
      for (const item of items) queue.append(owner, item, size, 0);
    return queue;
  };
  const takeOut = (queue: WaitQueue<string>, count: number) =>
    Array.from({ length: count }, () => queue.shift()!.item).join('');

  it('serves them round robin, each in its own order', () => {
    const queue = queueOf({ a: ['uvwxyz', 1], b: ['bcd', 1] });
    expect(queue.length).toBe(9);
    expect(takeOut(queue, 6)).toMatch(/^(ub|bu)(vc|cv)(wd|dw)$/);
    expect(takeOut(queue, 3)).toBe('xyz');
    expect([queue.shift(), queue.length]).toEqual([undefined, 0]);
    queue.append('a', 'again', 7, 9);
    expect(queue.shift()).toMatchObject({ item: 'again', size: 7, sinceMs: 9 });
  });

  it('shares the rate by size, not by number of items', () => {
    const queue = queueOf({ large: ['L'.repeat(100), 40], small: ['s'.repeat(1_000), 1] }, 16);
    const first = takeOut(queue, 500);
    const large = 40 * first.split('L').length;
    const small = first.split('s').length;
    expect(large / small).toBeGreaterThan(0.8);
    expect(large / small).toBeLessThan(1.2);
  });

  it('counts of a large item of another owner no more than a round', () => {
    const queue = queueOf({ large: ['L', 10_000] }, 16);
    expect([queue.sizeBefore('small'), queue.sizeBefore('large')]).toEqual([16, 10_000]);
  });

  it('is full for the owner that fills it, not for an owner with few items', () => {
    const queue = queueOf({ flood: ['x'.repeat(100), 1] });
    expect([queue.isFull('flood', 50, 1), queue.isFull('other', 50, 1)]).toEqual([true, false]);
    // the other owner waits for its own items and for as many of the flood's
    for (let i = 0; i < 30; i++) queue.append('other', 'o', 1, 0);
    expect([queue.sizeBefore('other'), queue.isFull('other', 50, 1)]).toEqual([30 + 31, true]);
  });
});
