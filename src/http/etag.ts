import { hash } from 'node:crypto';

/** Stands between the tag of the identity bytes and the name of a coding: no tag holds it. */
const SEPARATOR = '.';

/** The tags of a list are quoted strings; a weak mark before one does not matter for If-None-Match (RFC 9110, 13.1.2). */
const LISTED = /(?:W\/)?"([^"]*)"/g;

/** The tag of a body whose tag is not stored with it. */
export function tagOf(body: Uint8Array): string {
  return hash('sha1', body, 'base64url').slice(0, 16);
}

/** The tag of a list, made of those of its hotels: a tenth of the time that its bytes would take. */
export function listTagOf(tags: readonly (string | undefined)[]): string {
  return hash('sha1', tags.join(''), 'base64url').slice(0, 16);
}

/** True when an If-None-Match header names this tag, whatever compression it was given out with, or is `*`. */
export function matches(ifNoneMatch: string, tag: string): boolean {
  if (ifNoneMatch === '') return false;
  if (ifNoneMatch.trim() === '*') return true;
  for (const [, listed] of ifNoneMatch.matchAll(LISTED)) {
    if (listed!.split(SEPARATOR, 1)[0] === tag) return true;
  }
  return false;
}

/** What ends the header's value after the tag: bytes of another coding are another representation (RFC 9110, 8.8.3.3). */
export function closingOf(encoding: string | undefined): string {
  return encoding === undefined ? '"' : `${SEPARATOR}${encoding}"`;
}
