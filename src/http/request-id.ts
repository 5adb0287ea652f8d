import { randomBytes } from 'node:crypto';

/** What may be echoed into a header and a log: no spaces, no quotes, no control characters. */
export const WELL_FORMED = /^[A-Za-z0-9._~+/=:@-]{1,128}$/;

/** 00 to zz: number formatting costs more than all the rest of making an id, and a longer table does not stay in the processor's cache. */
const PAIRS = Array.from({ length: 36 ** 2 }, (_, i) => i.toString(36).padStart(2, '0'));
const STARTS = PAIRS.length ** 2;

/** The id that a request brings along, by its header; '' where it has none that may be echoed. */
export function ownId(header: string): string {
  return header !== '' && WELL_FORMED.test(header) ? header : '';
}

/**
 * Ids for requests that bring none along: unique to this process and unlikely to be met elsewhere. In two parts, for
 * each is one flat string, which the two joined would not be.
 */
class NewIds {
  readonly #process = randomBytes(9).toString('base64url');
  #starts = 0;
  #next = PAIRS.length;
  /** of the id that `next` began */
  start = '';

  /** Begins another id: it is `start`, and behind it what is returned. */
  next(): string {
    if (this.#next === PAIRS.length) {
      this.#next = 0;
      const digits = (this.#starts++ % STARTS).toString(36).padStart(4, '0');
      // made of bytes it is one flat string; joined, V8 would join it again for every answer
      this.start = Buffer.from(this.#process + digits).toString('latin1');
    }
    return PAIRS[this.#next++]!;
  }
}

export const newIds = new NewIds();
