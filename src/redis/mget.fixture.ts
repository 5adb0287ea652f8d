import { type Values, ValuesReader } from './reply-parser.ts';

/** Returns the MGET of the keys, as it is sent. */
export function mgetOf(keys: readonly string[]): Buffer {
  const words = keys.map((key) => `$${Buffer.byteLength(key)}\r\n${key}\r\n`);
  return Buffer.from(`*${keys.length + 1}\r\n$4\r\nMGET\r\n${words.join('')}`);
}

/** Returns value i, or null. It is a view. */
export function valueAt(values: Values, i: number): Buffer | null {
  return values.isNull(i) ? null : values.bytes.subarray(values.start(i), values.end(i));
}

/** Reads the values of keys, as a batch reads them. */
export async function readValues(
  store: { sendMget(command: Buffer, keys: number, reader: ValuesReader): Promise<unknown> },
  keys: readonly string[],
): Promise<Values> {
  const reader = new ValuesReader({ keys: keys.length });
  await store.sendMget(mgetOf(keys), keys.length, reader);
  return reader.values;
}
