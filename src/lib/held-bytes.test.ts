import { expect, it } from 'vitest';
import { HeldBytes } from './held-bytes.ts';

it('finds the first holder of the owner with the most bytes', () => {
  const held = new HeldBytes<string>();
  expect(held.firstOfLargest()).toBeUndefined();
  held.set('a1', 'a', 5);
  held.set('b1', 'b', 3);
  held.set('b2', 'b', 3);
  expect([held.total, held.firstOfLargest()]).toEqual([11, 'b1']);
  held.set('b1', 'b', 1);
  expect([held.total, held.firstOfLargest()]).toEqual([9, 'a1']);
  held.set('b1', 'b', 4);
  expect(held.firstOfLargest()).toBe('b1');
  held.delete('b1');
  held.delete('b1');
  expect([held.total, held.firstOfLargest()]).toEqual([8, 'a1']);
  // with another owner, a1 is its last holder
  held.set('a1', 'b', 6);
  expect([held.total, held.firstOfLargest()]).toEqual([9, 'b2']);
});
