import { describe, expect, it } from 'vitest';
import { StoredTag } from '../cache/arena/tag.ts';
import { Heads } from './head.ts';
import { newIds } from './request-id.ts';

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

  it('has numbers as digits of base 32, also where it must grow', () => {
    const heads = new Heads('text/plain', '\r\nvary: a');
    for (const number of [0, 1, 9, 10, 31, 32, 0x2aaaaaaa, 2 ** 30 - 1]) {
      const digits = number.toString(32).padStart(6, '0');
      expect(textOf(heads.begin(200).addBase32(number).bytes)).toBe(`200 ${START}${digits}`);
    }
    let head = heads.begin(200);
    for (let i = 0; i < 200; i++) head = head.addBase32(i);
    const all = Array.from({ length: 200 }, (_, i) => i.toString(32).padStart(6, '0')).join('');
    expect(textOf(head.bytes)).toBe(`200 ${START}${all}`);
  });

  it('has a new request id, also after one of a client', () => {
    const heads = new Heads('text/plain', '\r\nvary: a');
    for (const id of [0, 2 ** 30 - 1]) {
      expect(textOf(heads.beginWithNew(200, id).bytes)).toBe(`200 ${START}${newIds.text(id)}`);
      expect(textOf(heads.begin(200).add('of-a-client').bytes)).toBe(`200 ${START}of-a-client`);
    }
  });

  it('has the tag of a stored hotel, after each kind of id, and further headers behind it', () => {
    const memory = new ArrayBuffer(64);
    const tag = new StoredTag(memory);
    for (const [i, vary] of ['a', 'ab', 'abc', 'abcd'].entries()) {
      const heads = new Heads('text/plain', `\r\nvary: ${vary}`);
      for (const text of ['AAAA-BBBB_CC', `0123456789_${i}`]) {
        tag.word = i + 1;
        Buffer.from(memory).write(text, 4 * tag.word);
        expect(String(tag)).toBe(text);
        const start = `200 ${START.replace(': a', `: ${vary}`)}`;
        const tagged = `${start}${newIds.text(i)}\r\netag: "${text}`;
        expect(textOf(heads.beginWithNewAndTag(200, i, tag).bytes)).toBe(tagged);
        expect(textOf(heads.beginWithNew(200, 7).bytes)).toBe(start + newIds.text(7));
        const long = 'x'.repeat(700);
        expect(textOf(heads.beginWithNewAndTag(200, i, tag).add(long).bytes)).toBe(tagged + long);
        expect(textOf(heads.beginWithNewAndTag(200, i, tag).bytes)).toBe(tagged);
      }
    }
  });
});
