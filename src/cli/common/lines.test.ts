import { expect, test } from 'vitest';
import { BEGINNING, type Line, readLines } from './lines.ts';

const MIB = 1024 * 1024;
const PIECE = 64 * 1024;

async function linesOf(content: Buffer | string): Promise<Line[]> {
  const bytes = Buffer.from(content);
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
  }
  const lines: Line[] = [];
  for await (const some of readLines(pieces(), BEGINNING)) lines.push(...some);
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
