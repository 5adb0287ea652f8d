import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Line, readLines } from './lines.ts';

const MIB = 1024 * 1024;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lines-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function linesOf(bytes: Buffer | string): Promise<Line[]> {
  const path = join(folder, 'file');
  await writeFile(path, bytes);
  await using handle = await open(path);
  const lines: Line[] = [];
  for await (const some of readLines(handle)) lines.push(...some);
  return lines;
}

test('lines are counted from 1, blank ones too, and the last needs no newline', async () => {
  const lines = await linesOf('{"a":1}\n\n  \r\n{"b":2}\r\n{"c":3}');
  expect(lines.map(({ number, text }) => [number, text])).toEqual([
    [1, '{"a":1}'],
    [4, '{"b":2}\r'],
    [5, '{"c":3}'],
  ]);
});

test('a line knows where its bytes stand', async () => {
  const bytes = Buffer.from('{"a":"é"}\n{"b":2}\n');
  const stretches = (await linesOf(bytes)).map(({ start, end }) => bytes.toString('utf8', start, end));
  expect(stretches).toEqual(['{"a":"é"}', '{"b":2}']);
});

test('a byte order mark at the beginning is no part of the JSON', async () => {
  expect((await linesOf('\ufeff{}\n'))[0]?.text).toBe('{}');
});

test('lines are the same wherever the pieces that are read end', async () => {
  const texts = Array.from({ length: 3000 }, (_, i) => `${i}${'é'.repeat((i * 37) % 900)}`);
  const lines = await linesOf(`${texts.join('\n')}\n`);
  expect(lines.map(({ text }) => text)).toEqual(texts);
});

test('a line of 1 MiB is read, a longer one is not, and those behind it are', async () => {
  const lines = await linesOf(`${'x'.repeat(MIB)}\n${'y'.repeat(3 * MIB)}\nz\n`);
  expect(lines.map(({ number, text, fault }) => [number, text?.length, fault])).toEqual([
    [1, MIB, ''],
    [2, undefined, 'the line is longer than 1 MiB'],
    [3, 1, ''],
  ]);
});

test('bytes that are no UTF-8 make a faulty line, not another text', async () => {
  const lines = await linesOf(Buffer.concat([Buffer.from([0x22, 0xff, 0x22, 10]), Buffer.from('{}\n')]));
  expect(lines.map(({ text, fault }) => [text, fault])).toEqual([
    [undefined, 'the line is not UTF-8'],
    ['{}', ''],
  ]);
});
