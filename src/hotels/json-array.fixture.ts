import { type Body, LargeBody } from './json-array.ts';

/** Returns all bytes of a body. */
export function bytesOf(body: Body): Buffer {
  if (!(body instanceof LargeBody)) return Buffer.from(body);
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length; at += pieces.at(-1)!.length)
    pieces.push(Buffer.from(body.bytesFrom(at)));
  return Buffer.concat(pieces);
}
