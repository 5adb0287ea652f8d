import { isDeepStrictEqual } from 'node:util';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import type { Call } from './load/call.ts';
import { ask } from './load/connection.ts';
import type { Target } from './targets/target.ts';

const SAMPLE = 12;

/** Sends a sample of the calls to a target and compares the parsed responses with PostgreSQL; throws on a difference. */
export async function verify(target: Target, calls: Call[]): Promise<void> {
  for (let i = 0; i < Math.min(SAMPLE, calls.length); i++) {
    const call = calls[Math.floor((i * calls.length) / SAMPLE) % calls.length]!;
    const request = call.bytes.toString('latin1').split('\r\n')[0];
    const body = await ask(target.port, call).catch((error: Error) => {
      throw new Error(`${target.name}, ${request}: ${error.message}`);
    });
    if (call.body && !isDeepStrictEqual(JSON.parse(decoded(body).toString()), call.body()))
      throw new Error(`${target.name}, ${request}: the response differs from PostgreSQL`);
  }
}

/** Returns the uncompressed body. */
function decoded(body: Buffer): Buffer {
  if (body[0] === 0x7b || body[0] === 0x5b) return body;
  if (body.readUInt16BE() === 0x1f8b) return gunzipSync(body);
  return body.readUInt32LE() === 0xfd2fb528 ? zstdDecompressSync(body) : brotliDecompressSync(body);
}
