import { isDeepStrictEqual } from 'node:util';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { Client } from '../test/support/client.ts';
import { type Call, parseCall } from './load/call.ts';
import type { Target } from './targets/target.ts';

const SAMPLE = 12;

/** Sends a sample of the calls to a target and compares the parsed responses with PostgreSQL; throws on a difference. */
export async function verify(target: Target, calls: Call[]): Promise<void> {
  for (let i = 0; i < Math.min(SAMPLE, calls.length); i++) {
    const call = calls[Math.floor((i * calls.length) / SAMPLE) % calls.length]!;
    const line = call.bytes.toString('latin1').split('\r\n')[0];
    const body = await bodyOf(target.port, call).catch((error: Error) => {
      throw new Error(`${target.name}, ${line}: ${error.message}`);
    });
    if (call.body && !isDeepStrictEqual(JSON.parse(decoded(body).toString()), call.body()))
      throw new Error(`${target.name}, ${line}: the response differs from PostgreSQL`);
  }
}

/** Returns the body of the response as sent, of a known length or in chunks; throws on another status or length. */
export async function bodyOf(port: number, call: Call): Promise<Buffer> {
  const { path, body: sent, ...options } = parseCall(call);
  const client = new Client(port, {}, false);
  const { status, body } = await client.request(path, options, sent ? Buffer.from(sent) : undefined);
  if (status !== call.status) throw new Error(`status ${status} instead of ${call.status}`);
  if (call.mayBeCompressed || body.length === call.bodyBytes) return body;
  throw new Error(`${body.length} bytes instead of ${call.bodyBytes}`);
}

/** Returns the uncompressed body. */
function decoded(body: Buffer): Buffer {
  if (body[0] === 0x7b || body[0] === 0x5b) return body;
  if (body.readUInt16BE() === 0x1f8b) return gunzipSync(body);
  return body.readUInt32LE() === 0xfd2fb528 ? zstdDecompressSync(body) : brotliDecompressSync(body);
}
