import { describe, expect, it } from 'vitest';
import { Heads } from './head.ts';

const textOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');
const START = 'OK\r\ncontent-type: text/plain\r\nvary: a\r\nx-request-id: ';

describe('a head', () => {
  it('is separate for each response and each status', () => {
    const heads = new Heads('text/plain', '\r\nvary: a');
    heads.begin(200).add('a long one');
    const missing = heads.begin(404).add('2');
    expect(textOf(heads.begin(200).add('3').bytes)).toBe(`200 ${START}3`);
    expect(textOf(missing.bytes)).toBe(`404 Not Found${START.slice(2)}2`);
  });

  it('grows with added headers, and is correct when it is short again', () => {
    const heads = new Heads('text/plain', '\r\nvary: a');
    const short = textOf(heads.begin(200).add('1').bytes);
    const long = 'x'.repeat(700);
    expect(textOf(heads.begin(200).add(long).add(long).add(long).bytes)).toBe(
      `200 ${START}${long.repeat(3)}`,
    );
    expect(textOf(heads.begin(200).add('1').bytes)).toBe(short);
  });

  it('of the same length contains the headers added last', () => {
    const heads = new Heads('text/plain', '\r\nvary: a');
    for (const id of ['a', 'b', 'c'])
      expect(textOf(heads.begin(304).add(id).bytes).endsWith(`: ${id}`)).toBe(true);
  });
});
