import { expect, it } from 'vitest';
import { StoredTag } from '../cache/arena/tag.ts';
import { Heads, newIds } from './head.ts';

const textOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');
const MADE = /^[\w-]{12}[0-9a-v]{6}$/;
const START = 'OK\r\ncontent-type: text/plain\r\nvary: a\r\nx-request-id: ';

it('a head is separate for each status, grows with added headers, and is correct when it is short again', () => {
  const heads = new Heads('text/plain', '\r\nvary: a');
  const long = 'x'.repeat(700);
  const missing = heads.begin(404, '2', 0, '');
  for (const added of ['1', long + long, '3'])
    expect(textOf(heads.begin(200, added, 0, '').bytes)).toBe(`200 ${START}${added}`);
  expect(textOf(missing.bytes)).toBe(`404 Not Found${START.slice(2)}2`);
});

it('a head has the tag of a stored hotel, after each kind of id, and further headers behind it', () => {
  const memory = Buffer.alloc(64);
  const tag = new StoredTag(memory);
  for (const [i, vary] of ['a', 'ab', 'abc', 'abcd'].entries()) {
    const heads = new Heads('text/plain', `\r\nvary: ${vary}`);
    for (const text of ['AAAA-BBBB_CC', `0123456789_${i}`]) {
      tag.at = i + 1;
      memory.write(text, tag.at);
      expect(String(tag)).toBe(text);
      const start = `200 ${START.replace(': a', `: ${vary}`)}`;
      const tagged = `${start}${newIds.text(i)}\r\netag: "${text}`;
      expect(textOf(heads.begin(200, '', i, tag).bytes)).toBe(tagged);
      expect(textOf(heads.begin(200, '', 7, '').bytes)).toBe(start + newIds.text(7));
      const long = 'x'.repeat(700);
      expect(textOf(heads.begin(200, '', i, tag).add(long).bytes)).toBe(tagged + long);
      expect(textOf(heads.begin(200, '', i, tag).bytes)).toBe(tagged);
    }
  }
});

it('a request id is drawn once per request, and its start identifies the process', () => {
  const made = Array.from({ length: 100_000 }, () => newIds.text(newIds.next()));
  expect(new Set(made).size).toBe(100_000);
  expect(new Set(made.map((id) => id.slice(0, 12))).size).toBe(1);
  // the ids of one client do not reveal how many were drawn between them: their order and distances are random
  const rising = made.filter((id, i) => i > 0 && id > made[i - 1]!).length;
  expect(rising / made.length).toBeGreaterThan(0.45);
  expect(rising / made.length).toBeLessThan(0.55);
  const shared = made.filter((id, i) => i > 0 && id.slice(0, 16) === made[i - 1]!.slice(0, 16)).length;
  expect(shared).toBeLessThan(made.length / 1_000);
  for (const id of made) if (!MADE.test(id)) expect(id).toMatch(MADE);
});
