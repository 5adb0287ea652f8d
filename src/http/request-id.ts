import { randomBytes } from 'node:crypto';

/** What may be echoed into a header and a log: no spaces, no quotes, no control characters. */
export const WELL_FORMED = /^[A-Za-z0-9._~+/=:@-]{1,128}$/;

const start = randomBytes(9).toString('base64url');
/** 00 to zz: number formatting costs more than all the rest of making an id, and a longer table does not stay in the processor's cache. */
const PAIRS = Array.from({ length: 36 ** 2 }, (_, i) => i.toString(36).padStart(2, '0'));
const PREFIXES = PAIRS.length ** 2;
let prefixes = 0;
let prefix = nextPrefix();
let low = 0;

/** An id in two parts: each is one flat string, which the two joined would not be. */
export interface RequestId {
  readonly start: string;
  readonly end: string;
}

/** The request's own id where it is well-formed, else a new one, unique to this process and unlikely to be met elsewhere. */
export function requestIdOf(header: string): RequestId {
  if (header !== '' && WELL_FORMED.test(header)) return { start: header, end: '' };
  if (low === PAIRS.length) {
    low = 0;
    prefix = nextPrefix();
  }
  return { start: prefix, end: PAIRS[low++]! };
}

function nextPrefix(): string {
  const digits = (prefixes++ % PREFIXES).toString(36).padStart(4, '0');
  // made of bytes it is one flat string; joined, V8 would join it again for every answer
  return Buffer.from(start + digits).toString('latin1');
}
