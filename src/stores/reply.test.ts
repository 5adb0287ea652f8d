import { expect, it } from 'vitest';
import { ValuesReader } from './reply.ts';

const KEYS = 1_000;
const POINTER = `>${'0'.repeat(36)}`;
const REPLY = Buffer.from(`*${KEYS}\r\n${`$${POINTER.length}\r\n${POINTER}\r\n`.repeat(KEYS)}`);

it('values are no larger than their reply, however large the one before was and whatever follows', () => {
  const reader = new ValuesReader({ expectedBytes: 1_000_000 });
  const next = Buffer.from('*1\r\n$-1\r\n');
  expect(reader.take(REPLY.subarray(0, 40_000), 0)).toBe(-1);
  const rest = Buffer.concat([REPLY.subarray(40_000), next]);
  expect(reader.take(rest, 0)).toBe(rest.length - next.length);
  const { values } = reader;
  expect(values.length).toBe(KEYS);
  expect(values.bytes.length).toBe(REPLY.length);
  expect(`${values.value(KEYS - 1)}`).toBe(POINTER);
});
