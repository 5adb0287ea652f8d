import { describe, expect, it } from 'vitest';
import { WaitingLine } from './waiting-line.ts';

const lineOf = (...items: string[]) => {
  const line = new WaitingLine<string>(0.01);
  for (const [i, item] of items.entries()) line.append(item, 1_000, i);
  return line;
};

describe('a waiting line', () => {
  it('keeps the order, and is empty when all have left', () => {
    const line = lineOf('a', 'b');
    line.append('c', 1_000, 5);
    expect(line.length).toBe(3);
    expect([line.shift(), line.shift(), line.shift()].map((place) => place!.item)).toEqual(['a', 'b', 'c']);
    expect(line.shift()).toBeUndefined();
    expect(line.length).toBe(0);
    line.append('d', 1_000, 9);
    expect(line.shift()).toMatchObject({ item: 'd', size: 1_000, sinceMs: 9 });
  });

  it('is full when what waits would take too long at the rate that was measured', () => {
    // a size of 1000 takes 10 ms at first
    const line = lineOf('a', 'b', 'c');
    expect(line.isFull(29, 3)).toBe(true);
    expect(line.isFull(31, 3)).toBe(false);
    // it goes ten times as slow, and that is believed by and by
    for (let i = 1; i <= 30; i++) {
      line.append('x', 1_000, 100 * i);
      line.shift();
      line.measure(100 * i);
    }
    expect(line.isFull(250, 3_000)).toBe(true);
    expect(line.isFull(310, 3_000)).toBe(false);
  });

  it('is full when the first has waited too long, whatever the rate was', () => {
    const line = lineOf('a');
    expect(line.isFull(100, 100)).toBe(false);
    expect(line.isFull(100, 101)).toBe(true);
    line.shift();
    expect(line.isFull(100, 10_000)).toBe(false);
  });

  it('does not count the time in which nobody waited', () => {
    const line = lineOf('a');
    line.shift();
    line.measure(10);
    line.append('b', 1_000, 1_000_000);
    line.shift();
    line.measure(1_000_010);
    line.append('c', 1_000, 1_000_010);
    expect(line.isFull(11, 1_000_010)).toBe(false);
  });
});
