import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MacSecret } from '../lib/mac.ts';
import type { FeedMessage } from './messages.ts';
import { MAC_CHARACTERS, readPayload, signed } from './payload.ts';

const SECRET = new MacSecret();
const MESSAGE: FeedMessage = { e: 'term', o: 2, n: 7, g: 'generation', b: 'term:7', w: 5, p: ['term', 5] };
const FULL: FeedMessage = {
  ...MESSAGE,
  b: null,
  h: [['id', 1.5, 'channel', '-42']],
  k: [['0'.repeat(64), 3]],
  c: [
    ['collection', null],
    [null, ['id']],
  ],
  t: ['hotels', 'keys'],
  m: true,
  q: 9,
  l: true,
};
const read = (value: unknown) => readPayload(signed(JSON.stringify(value), SECRET), SECRET);

describe('a payload', () => {
  it('is decoded if it is signed and matches the schema of a message', () => {
    expect(read(MESSAGE)).toEqual(MESSAGE);
    expect(read(FULL)).toEqual(FULL);
    expect(read({ ...FULL, added: 'later' })).toMatchObject(FULL);
  });

  it('is unsigned with one character changed, with the secret of another database, or without a code', () => {
    const payload = signed(JSON.stringify(FULL), SECRET);
    fc.assert(
      fc.property(fc.nat(payload.length - 1), fc.string({ minLength: 1, maxLength: 1 }), (at, character) => {
        fc.pre(payload[at] !== character);
        const changed = payload.slice(0, at) + character + payload.slice(at + 1);
        // the last character of the code holds two bits that are not part of it
        if (at === MAC_CHARACTERS - 1) return;
        expect(readPayload(changed, SECRET)).toBe('unsigned');
      }),
    );
    expect(readPayload(signed(JSON.stringify(FULL), new MacSecret()), SECRET)).toBe('unsigned');
    expect(readPayload(JSON.stringify(FULL), SECRET)).toBe('unsigned');
    expect(readPayload('', SECRET)).toBe('unsigned');
  });

  it.each([
    ['{"h":5}'],
    ['null'],
    ['[]'],
    ['{'],
    [JSON.stringify({ ...MESSAGE, n: -1 })],
    [JSON.stringify({ ...MESSAGE, p: ['term'] })],
    [JSON.stringify({ ...MESSAGE, h: [['', 1, null, null]] })],
    [JSON.stringify({ ...MESSAGE, h: [['id', 1e300, null, null]] })],
    [JSON.stringify({ ...MESSAGE, h: [['id', 1, null, 'x']] })],
    [JSON.stringify({ ...MESSAGE, k: [['sha256', 1]] })],
    [JSON.stringify({ ...MESSAGE, c: [['collection', ['']]] })],
    [JSON.stringify({ ...MESSAGE, t: ['rows'] })],
    [JSON.stringify({ ...MESSAGE, q: 0.5 })],
    [JSON.stringify({ ...MESSAGE, m: false })],
  ])('is malformed: %s', (json) => {
    expect(readPayload(signed(json, SECRET), SECRET)).toBe('malformed');
  });

  it('never causes an exception, signed or not', () => {
    const outcome = (payload: string) => {
      const message = readPayload(payload, SECRET);
      return typeof message === 'string' ? message : 'message';
    };
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (payload) => {
        expect(outcome(payload)).toBe('unsigned');
      }),
    );
    const fields = fc.record(
      Object.fromEntries(Object.keys(FULL).map((name) => [name, fc.jsonValue({ maxDepth: 2 })])),
      { requiredKeys: [] },
    );
    const near = fields.map((changed) => JSON.stringify({ ...FULL, ...changed }));
    fc.assert(
      fc.property(fc.oneof(fc.json(), near, fc.string({ unit: 'binary' })), (text) => {
        expect(['malformed', 'message']).toContain(outcome(signed(text, SECRET)));
      }),
      { numRuns: 300 },
    );
  });
});
