import { expect, test, vi } from 'vitest';
import { BEGINNING, type Line, readLines } from './lines.ts';

const MIB = 1024 * 1024;
const PIECE = 64 * 1024;

async function linesOf(content: Buffer | string, mark = BEGINNING): Promise<Line[]> {
  const bytes = Buffer.from(content);
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = mark.start; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
  }
  const lines: Line[] = [];
  for await (const some of readLines(pieces(), mark)) lines.push(...some);
  return lines;
}

test('lines are numbered from 1, and the last may have no newline', async () => {
  const lines = await linesOf('{"a":1}\n\n  \r\n{"b":2}\r\n{"c":3}');
  expect(lines.map(({ number, text }) => [number, text])).toEqual([
    [1, '{"a":1}'],
    [2, ''],
    [3, '  \r'],
    [4, '{"b":2}\r'],
    [5, '{"c":3}'],
  ]);
  expect(lines.map(({ isUnfinished }) => isUnfinished)).toEqual([false, false, false, false, true]);
});

test('a line has the offsets of its bytes', async () => {
  const bytes = Buffer.from('{"a":"é"}\n{"b":2}\n');
  const ranges = (await linesOf(bytes)).map(({ start, end }) => bytes.toString('utf8', start, end));
  expect(ranges).toEqual(['{"a":"é"}', '{"b":2}']);
});

test('byte order marks at the beginning of lines are skipped, as joined files have them', async () => {
  expect((await linesOf('\ufeff{}\n\ufeff{"a":"\ufeff"}\n')).map(({ text }) => text)).toEqual([
    '{}',
    '{"a":"\ufeff"}',
  ]);
});

test('lines do not depend on the boundaries of the chunks', async () => {
  const texts = Array.from({ length: 3000 }, (_, i) => `${i}${'é'.repeat((i * 37) % 900)}`);
  const lines = await linesOf(`${texts.join('\n')}\n`);
  expect(lines.map(({ text }) => text)).toEqual(texts);
});

test('a line of 1 MiB is read, a longer one is a fault, and the next lines are read', async () => {
  const lines = await linesOf(`${'x'.repeat(MIB)}\n${'y'.repeat(3 * MIB)}\nz\n`);
  expect(lines.map(({ number, text, fault }) => [number, text?.length, fault])).toEqual([
    [1, MIB, ''],
    [2, undefined, 'the line is longer than 1 MiB'],
    [3, 1, ''],
  ]);
});

test('invalid UTF-8 is a fault of the line', async () => {
  const lines = await linesOf(Buffer.concat([Buffer.from([0x22, 0xff, 0x22, 10]), Buffer.from('{}\n')]));
  expect(lines.map(({ text, fault }) => [text, fault])).toEqual([
    [undefined, 'the line is not UTF-8'],
    ['{}', ''],
  ]);
});

test('reading from behind any line yields the same lines as reading from the beginning', async () => {
  const text = '{"a":1}\n\n{"b":2}\n  \n\n{"c":3}\n{"d":4}';
  const all = await linesOf(text);
  for (const [at, { number, end }] of all.entries()) {
    expect(await linesOf(text, { number, start: end + 1 })).toEqual(all.slice(at + 1));
  }
});

test.each([
  ['blank lines', '\n'.repeat(10_000)],
  ['short lines', 'a,b\n'.repeat(10_000)],
])('each byte is searched for newlines once: %s', async (_, content) => {
  const piece = Buffer.from(content);
  const indexOf = piece.indexOf.bind(piece);
  let searched = 0;
  vi.spyOn(piece, 'indexOf').mockImplementation((value, from) => {
    const start = Number(from ?? 0);
    const found = indexOf(value, start);
    searched += (found === -1 ? piece.length : found + 1) - start;
    return found;
  });
  async function* pieces(): AsyncGenerator<Buffer> {
    yield piece;
  }
  for await (const _lines of readLines(pieces(), BEGINNING));
  expect(searched).toBeLessThanOrEqual(piece.length);
});
