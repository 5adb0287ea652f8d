import { describe, expect, it } from 'vitest';
import { newIds, ownId } from './request-id.ts';

const MADE = /^[\w-]{12}[0-9a-z]{6}$/;

describe('a request id', () => {
  it.each(['1', 'a'.repeat(128), '7f3c-_.~+/=:@Z', 'Root=1-67891233-abcdef012345678912345678'])(
    'that is well-formed is kept: %s',
    (id) => {
      expect(ownId(id)).toBe(id);
    },
  );

  it.each([
    '',
    ' ',
    'a b',
    'a"b',
    "a'b",
    'a\r\nx-evil: 1',
    'a\tb',
    'a'.repeat(129),
    'é',
    '\0',
    'a;b',
    'a,b',
    '{}',
    '<b>',
    '%0a',
  ])('that is not is none: %j', (id) => {
    expect(ownId(id)).toBe('');
  });

  it('that is made is made once, and tells the process by its start', () => {
    const made = Array.from({ length: 100_000 }, () => {
      const end = newIds.next();
      return newIds.start + end;
    });
    expect(new Set(made).size).toBe(100_000);
    expect(new Set(made.map((id) => id.slice(0, 12))).size).toBe(1);
    for (const id of made) if (!MADE.test(id)) expect(id).toMatch(MADE);
  });
});
