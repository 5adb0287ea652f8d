import { describe, expect, it } from 'vitest';
import { joined, ValuesReader } from './reply-parser.ts';

describe('a reply in two parts is read like a whole one, wherever it is split', () => {
  const value = (text: string) => `$${text.length}\r\n${text}\r\n`;
  const NEXT = '+next\r\n';
  const textsOf = ({ values }: ValuesReader) =>
    Array.from({ length: values.length }, (_, i) => values.value(i)?.toString() ?? null);

  it.each([
    ['to one command', `*3\r\n${value('a')}$-1\r\n${value('-$*')}`, undefined, ['a', null, '-$*'], []],
    [
      'to a command for each key',
      `*1\r\n${value('a')}-ASK 1 h:2\r\n*1\r\n$-1\r\n*1\r\n${value('')}`,
      4,
      ['a', null, null, ''],
      [1],
    ],
    ['an error', '-LOADING it\r\n', undefined, [null], [0]],
  ])('%s', (_, reply, replies, texts, rejected) => {
    for (let parted = 1; parted < reply.length; parted++)
      for (const memory of [undefined, Buffer.alloc(100, '*'), Buffer.alloc(parted, '*')]) {
        const reader = new ValuesReader({ keys: replies ? 1 : texts.length, replies, memory });
        const first = Buffer.from(`before${reply.slice(0, parted)}`);
        expect(reader.take(first, 6)).toBe(-1);
        // its bytes are no longer valid
        first.fill('*');
        const second = Buffer.from(reply.slice(parted) + NEXT);
        expect(reader.take(second, 0)).toBe(second.length - NEXT.length);
        second.fill('*');
        expect(textsOf(reader)).toEqual(texts);
        expect(reader.values.bytes).toHaveLength(reply.length);
        expect(reader.errorReplies.map(([place]) => place)).toEqual(rejected);
      }
  });
});

it('replies of several nodes are joined to the reply to one MGET, in the order of the keys', () => {
  const valuesOf = (keys: number, reply: string) => {
    const reader = new ValuesReader({ keys });
    reader.take(Buffer.from(`before${reply}`), 6);
    return reader.values;
  };
  const long = 'x'.repeat(1_000);
  const values = joined(
    [
      { values: valuesOf(3, `*3\r\n$1000\r\n${long}\r\n$-1\r\n$2\r\né\r\n`), at: [4, 0, 1] },
      { values: valuesOf(1, '*1\r\n$0\r\n\r\n'), at: [2] },
    ],
    5,
  );
  const texts = [null, 'é', '', null, long];
  expect(texts.map((_, i) => values.value(i)?.toString() ?? null)).toEqual(texts);
  expect(`${values.bytes}`).toBe(`*5\r\n$-1\r\n$2\r\né\r\n$0\r\n\r\n$-1\r\n$1000\r\n${long}\r\n`);
});
