import { describe, expect, it } from 'vitest';
import { WaitQueue } from './wait-queue.ts';

const lineOf = (...items: string[]) => {
  const line = new WaitQueue<string>(0.01, 1_000);
  for (const [i, item] of items.entries()) line.append('me', item, 1_000, i);
  return line;
};

describe('a waiting line', () => {
  it('keeps the order, and is empty when all have left', () => {
    const line = lineOf('a', 'b');
    line.append('me', 'c', 1_000, 5);
    expect(line.length).toBe(3);
    expect([line.shift(), line.shift(), line.shift()].map((place) => place!.item)).toEqual(['a', 'b', 'c']);
    expect(line.shift()).toBeUndefined();
    expect(line.length).toBe(0);
    line.append('me', 'd', 1_000, 9);
    expect(line.shift()).toMatchObject({ item: 'd', size: 1_000, sinceMs: 9 });
  });

  it('is full when what waits would take too long at the rate that was measured', () => {
    // a size of 1000 takes 10 ms at first
    const line = lineOf('a', 'b', 'c');
    expect(line.isFull('me', 29, 3)).toBe(true);
    expect(line.isFull('me', 31, 3)).toBe(false);
    // it goes ten times as slow, and that is believed by and by
    for (let i = 1; i <= 30; i++) {
      line.append('me', 'x', 1_000, 100 * i);
      line.shift();
      line.measure(100 * i);
    }
    expect(line.isFull('me', 250, 3_000)).toBe(true);
    expect(line.isFull('me', 310, 3_000)).toBe(false);
  });

  it('is full when the first has waited too long, whatever the rate was', () => {
    const line = lineOf('a');
    expect(line.isFull('me', 100, 100)).toBe(false);
    expect(line.isFull('me', 100, 101)).toBe(true);
    line.shift();
    expect(line.isFull('me', 100, 10_000)).toBe(false);
  });

  it('does not count the time in which nobody waited', () => {
    const line = lineOf('a');
    line.shift();
    line.measure(10);
    line.append('me', 'b', 1_000, 1_000_000);
    line.shift();
    line.measure(1_000_010);
    line.append('me', 'c', 1_000, 1_000_010);
    expect(line.isFull('me', 11, 1_000_010)).toBe(false);
  });
});

describe('a waiting line of several owners', () => {
  const takeOut = (line: WaitQueue<string>, count: number) =>
    Array.from({ length: count }, () => line.shift()!.item).join('');

  it('lets them take turns, each its own in their order', () => {
    const line = new WaitQueue<string>(1, 1);
    for (const item of 'aaaaaa') line.append('a', item, 1, 0);
    for (const item of 'bcd') line.append('b', item, 1, 0);
    expect(takeOut(line, 6)).toMatch(/^(ab|ba)(ac|ca)(ad|da)$/);
    expect(takeOut(line, 3)).toBe('aaa');
    expect(line.shift()).toBeUndefined();
  });

  it('shares by size, not by number', () => {
    const line = new WaitQueue<string>(1, 16);
    for (let i = 0; i < 100; i++) line.append('large', 'L', 40, 0);
    for (let i = 0; i < 1_000; i++) line.append('small', 's', 1, 0);
    const first = takeOut(line, 500);
    const large = 40 * first.split('L').length;
    const small = first.split('s').length;
    expect(large / small).toBeGreaterThan(0.8);
    expect(large / small).toBeLessThan(1.2);
  });

  it('is full for the owner that fills it, not for one of which little waits', () => {
    const line = new WaitQueue<string>(1, 1);
    for (let i = 0; i < 100; i++) line.append('flood', 'x', 1, 0);
    expect(line.isFull('flood', 50, 1)).toBe(true);
    expect(line.isFull('other', 50, 1)).toBe(false);
    // it waits for its own and for as many of the flood's
    for (let i = 0; i < 30; i++) line.append('other', 'o', 1, 0);
    expect(line.sizeBefore('other')).toBe(30 + 31);
    expect(line.isFull('other', 50, 1)).toBe(true);
  });

  it('gives all of it to one that waits alone', () => {
    const line = new WaitQueue<string>(1, 1);
    line.append('a', 'a', 1, 0);
    line.append('b', 'b', 500, 0);
    for (let i = 0; i < 40; i++) line.append('b', 'b', 1, 0);
    line.shift();
    expect([line.length, line.sizeBefore('b')]).toEqual([41, 540]);
    expect(takeOut(line, 41)).toBe('b'.repeat(41));
  });

  it('is judged by how long the owner itself has waited', () => {
    const line = new WaitQueue<string>(0, 1);
    line.append('a', 'a', 1, 0);
    expect(line.isFull('a', 100, 101)).toBe(true);
    expect(line.isFull('b', 100, 101)).toBe(false);
  });
});
