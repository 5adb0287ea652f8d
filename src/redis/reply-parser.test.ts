import { expect, it } from 'vitest';
import { valueAt } from './mget.fixture.ts';
import { ValuesReader } from './reply-parser.ts';

const value = (text: string) => `$${text.length}\r\n${text}\r\n`;
const NEXT = '+next\r\n';
const textsOf = ({ values }: ValuesReader) =>
  Array.from({ length: values.places.length / 2 }, (_, i) => valueAt(values, i)?.toString() ?? null);

it.each([
  ['to one command', `*3\r\n${value('a')}$-1\r\n${value('-$*')}`, undefined, ['a', null, '-$*'], 0],
  [
    'to a command for each key',
    `*1\r\n${value('a')}-ASK 1 h:2\r\n*1\r\n$-1\r\n*1\r\n${value('')}`,
    4,
    ['a', null, null, ''],
    1,
  ],
  ['an error', '-LOADING it\r\n', undefined, [null], 1],
])(
  'a reply in two parts is read like a whole one, wherever it is split: %s',
  (_, reply, replies, texts, rejected) => {
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
        expect(reader.errors).toHaveLength(rejected);
      }
  },
);

it.each([0, 100])(
  'values of several replies are read like those of one, with %i bytes of memory',
  (bytes) => {
    const part = (reply: string, replies: number) => {
      const reader = new ValuesReader({ keys: 1, replies });
      reader.take(Buffer.from(reply), 0);
      return reader.values;
    };
    const reader = new ValuesReader({ keys: 5, memory: Buffer.alloc(bytes) });
    reader.use([
      { values: part(`*1\r\n${value('d')}*1\r\n${value('a')}`, 2), at: [3, 0] },
      { values: part(`*1\r\n$-1\r\n*1\r\n${value('-$*')}`, 2), at: [1, 4] },
    ]);
    expect(textsOf(reader)).toEqual(['a', null, null, 'd', '-$*']);
  },
);
