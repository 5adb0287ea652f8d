import type { View } from '../hotels/entry.ts';
import type { Change } from './change-log.ts';

const START = '{"changes":[';
const NULL = 'null';

/** Assembles the JSON of a page, in memory of its own. */
export function writePage(changes: Change[], view: View, next: string, more: boolean): Buffer {
  const end = `],"next":"${next}","more":${more}}`;
  // a comma precedes each but the first
  const heads = changes.map(({ id }, i) => `${i === 0 ? '' : ','}{"id":${JSON.stringify(id)},"hotel":`);
  let length = START.length + end.length;
  for (const [i, { hotel }] of changes.entries())
    length += Buffer.byteLength(heads[i]!) + (hotel?.bodyLength(view) ?? NULL.length) + 1;
  const body = Buffer.allocUnsafe(length);
  let at = body.write(START, 0, 'latin1');
  for (const [i, { hotel }] of changes.entries()) {
    at += body.write(heads[i]!, at);
    at = hotel ? hotel.copyBody(view, body, at) : at + body.write(NULL, at, 'latin1');
    at += body.write('}', at, 'latin1');
  }
  body.write(end, at, 'latin1');
  return body;
}
