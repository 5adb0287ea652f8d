import { describe, expect, it } from 'vitest';
import { AddressSpace } from './address-space.ts';

describe('an address space', () => {
  it('supplies the lowest free part that is long enough', () => {
    const space = new AddressSpace(100, 200);
    expect([space.take(30), space.take(30), space.take(30)]).toEqual([100, 130, 160]);
    space.release(130);
    expect(space.take(31)).toBeUndefined();
    expect(space.take(20)).toBe(130);
    expect(space.take(10)).toBe(150);
    expect(space.take(10)).toBe(190);
    expect(space.take(1)).toBeUndefined();
    space.release(100);
    expect(space.take(30)).toBe(100);
  });
});
