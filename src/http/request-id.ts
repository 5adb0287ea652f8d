import { randomBytes } from 'node:crypto';

/** What may be echoed into a header and a log: no spaces, no quotes, no control characters. */
const WELL_FORMED = /^[A-Za-z0-9._~+/=:@-]{1,128}$/;

const start = randomBytes(9).toString('base64url');
let count = 0;

/** The request's own id where it is well-formed, else a new one, unique to this process and unlikely to be met elsewhere. */
export function requestIdOf(header: string): string {
  if (header !== '' && WELL_FORMED.test(header)) return header;
  count = (count + 1) % 0x7fffffff;
  return `${start}${count.toString(36).padStart(6, '0')}`;
}
