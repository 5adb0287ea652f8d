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

/**
 * The id of a request: its own where that is well-formed, else a new one, unique to this process and unlikely to be met
 * elsewhere. In two parts, for each is one flat string, which the two joined would not be. A class, because V8 would
 * put literals into old space once those of requests that waited had lived for long.
 */
export class RequestId {
  readonly start: string;
  readonly end: string;

  /** `header`: what the request calls itself; empty: nothing. */
  constructor(header: string) {
    if (header !== '' && WELL_FORMED.test(header)) {
      this.start = header;
      this.end = '';
      return;
    }
    if (low === PAIRS.length) {
      low = 0;
      prefix = nextPrefix();
    }
    this.start = prefix;
    this.end = PAIRS[low++]!;
  }

  toString(): string {
    return this.start + this.end;
  }
}

function nextPrefix(): string {
  const digits = (prefixes++ % PREFIXES).toString(36).padStart(4, '0');
  // made of bytes it is one flat string; joined, V8 would join it again for every answer
  return Buffer.from(start + digits).toString('latin1');
}
