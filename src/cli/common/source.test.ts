import { expect, test } from 'vitest';
import { type Line, readLines } from './source.ts';

const MIB = 1024 * 1024;
const PIECE = 64 * 1024;

async function linesOf(content: Buffer | string): Promise<Line[]> {
  const bytes = Buffer.from(content);
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
  }
  const lines: Line[] = [];
  for await (const some of readLines(pieces())) lines.push(...some);
  return lines;
}

test('lines are numbered from 1 and have their bytes, and the last may have no newline', async () => {
  const lines = await linesOf('{"a":"é"}\n\n  \r\n{"b":2}\r\n{"c":3}');
  const texts = ['{"a":"é"}', '', '  \r', '{"b":2}\r', '{"c":3}'];
  expect(lines.map(({ number, text }) => [number, text])).toEqual(texts.map((text, i) => [i + 1, text]));
  expect(lines.map(({ bytes }) => String(bytes))).toEqual(texts);
});

test('a line over 1 MiB or of other bytes than UTF-8 is a fault, and the next lines are read', async () => {
  const long = `${'x'.repeat(MIB)}\n${'y'.repeat(3 * MIB)}\n`;
  const lines = await linesOf(
    Buffer.concat([Buffer.from(long), Buffer.from([0xff, 10]), Buffer.from('z\n')]),
  );
  expect(lines.map(({ number, text, fault }) => [number, text?.length, fault])).toEqual([
    [1, MIB, ''],
    [2, undefined, 'the line is longer than 1 MiB'],
    [3, undefined, 'the line is not UTF-8'],
    [4, 1, ''],
  ]);
});
