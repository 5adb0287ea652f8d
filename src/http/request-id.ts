import { randomBytes } from 'node:crypto';
import Type from 'typebox';

/** What may be echoed into a header and a log: no spaces, no quotes, no control characters. */
const WELL_FORMED = /^[A-Za-z0-9._~+/=:@-]{1,128}$/;
export const RequestId = Type.String({ pattern: WELL_FORMED.source });

const start = randomBytes(9).toString('base64url');
/** 000 to zzz: number formatting costs more than all the rest of making an id. */
const DIGITS = Array.from({ length: 36 ** 3 }, (_, i) => i.toString(36).padStart(3, '0'));
let high = 0;
let low = 0;

/** The request's own id where it is well-formed, else a new one, unique to this process and unlikely to be met elsewhere. */
export function requestIdOf(header: string): string {
  if (header !== '' && WELL_FORMED.test(header)) return header;
  low++;
  if (low === DIGITS.length) {
    low = 0;
    high = (high + 1) % DIGITS.length;
  }
  return start + DIGITS[high]! + DIGITS[low]!;
}
