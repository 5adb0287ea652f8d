import { expect, it } from 'vitest';
import { StoredTag } from '../cache/arena/tag.ts';
import { Heads } from './head.ts';
import { newIds } from './request-id.ts';

const textOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');
const START = 'OK\r\ncontent-type: text/plain\r\nvary: a\r\nx-request-id: ';

it('a head is separate for each status, grows with added headers, and is correct when it is short again', () => {
  const heads = new Heads('text/plain', '\r\nvary: a');
  const long = 'x'.repeat(700);
  const missing = heads.begin(404).add('2');
  for (const added of ['1', long + long, '3'])
    expect(textOf(heads.begin(200).add(added).bytes)).toBe(`200 ${START}${added}`);
  expect(textOf(missing.bytes)).toBe(`404 Not Found${START.slice(2)}2`);
});

it('a head has the tag of a stored hotel, after each kind of id, and further headers behind it', () => {
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
