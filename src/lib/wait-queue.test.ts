import { describe, expect, it } from 'vitest';
import { WaitQueue } from './wait-queue.ts';

const queueOf = (...items: string[]) => {
  const queue = new WaitQueue<string>(0.01, 1_000);
  for (const [i, item] of items.entries()) queue.append('me', item, 1_000, i);
  return queue;
};

describe('a wait queue', () => {
  it('keeps the order, and is empty when all items have left', () => {
    const queue = queueOf('a', 'b');
    queue.append('me', 'c', 1_000, 5);
    expect(queue.length).toBe(3);
    expect([queue.shift(), queue.shift(), queue.shift()].map((place) => place!.item)).toEqual([
      'a',
      'b',
      'c',
    ]);
    expect(queue.shift()).toBeUndefined();
    expect(queue.length).toBe(0);
    queue.append('me', 'd', 1_000, 9);
    expect(queue.shift()).toMatchObject({ item: 'd', size: 1_000, sinceMs: 9 });
  });

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

  it('is full when the first item has waited too long, at any rate', () => {
    const queue = queueOf('a');
    expect(queue.isFull('me', 100, 100)).toBe(false);
    expect(queue.isFull('me', 100, 101)).toBe(true);
    queue.shift();
    expect(queue.isFull('me', 100, 10_000)).toBe(false);
  });

  it('forgets the rate of an outage after a second in which nothing waited', () => {
    const queue = new WaitQueue<string>(0, 1);
    queue.append('a', 'x', 1, 0);
    queue.shift();
    queue.measure(2_000);
    queue.append('a', 'x', 1, 3_000);
    expect(queue.isFull('a', 375, 3_000)).toBe(true);
    queue.shift();
    queue.measure(3_000);
    queue.append('a', 'x', 1, 4_001);
    expect(queue.isFull('a', 375, 4_001)).toBe(false);
  });

  it('does not count the time in which it was empty', () => {
    const queue = queueOf('a');
    queue.shift();
    queue.measure(10);
    queue.append('me', 'b', 1_000, 1_000_000);
    queue.shift();
    queue.measure(1_000_010);
    queue.append('me', 'c', 1_000, 1_000_010);
    expect(queue.isFull('me', 11, 1_000_010)).toBe(false);
  });
});

describe('a wait queue of several owners', () => {
  const takeOut = (queue: WaitQueue<string>, count: number) =>
    Array.from({ length: count }, () => queue.shift()!.item).join('');

  it('serves them round robin, each in its own order', () => {
    const queue = new WaitQueue<string>(1, 1);
    for (const item of 'aaaaaa') queue.append('a', item, 1, 0);
    for (const item of 'bcd') queue.append('b', item, 1, 0);
    expect(takeOut(queue, 6)).toMatch(/^(ab|ba)(ac|ca)(ad|da)$/);
    expect(takeOut(queue, 3)).toBe('aaa');
    expect(queue.shift()).toBeUndefined();
  });

  it('shares the rate by size, not by number of items', () => {
    const queue = new WaitQueue<string>(1, 16);
    for (let i = 0; i < 100; i++) queue.append('large', 'L', 40, 0);
    for (let i = 0; i < 1_000; i++) queue.append('small', 's', 1, 0);
    const first = takeOut(queue, 500);
    const large = 40 * first.split('L').length;
    const small = first.split('s').length;
    expect(large / small).toBeGreaterThan(0.8);
    expect(large / small).toBeLessThan(1.2);
  });

  it('counts of a large item of another owner no more than a round', () => {
    const queue = new WaitQueue<string>(1, 16);
    queue.append('large', 'L', 10_000, 0);
    expect(queue.sizeBefore('small')).toBe(16);
    expect(queue.sizeBefore('large')).toBe(10_000);
  });

  it('is full for the owner that fills it, not for an owner with few items', () => {
    const queue = new WaitQueue<string>(1, 1);
    for (let i = 0; i < 100; i++) queue.append('flood', 'x', 1, 0);
    expect(queue.isFull('flood', 50, 1)).toBe(true);
    expect(queue.isFull('other', 50, 1)).toBe(false);
    // the other owner waits for its own items and for as many of the flood's
    for (let i = 0; i < 30; i++) queue.append('other', 'o', 1, 0);
    expect(queue.sizeBefore('other')).toBe(30 + 31);
    expect(queue.isFull('other', 50, 1)).toBe(true);
  });
});
