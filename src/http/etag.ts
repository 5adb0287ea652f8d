/** What an entity tag carries behind the tag of the identity bytes when the body is compressed. */
export type Suffix = '' | '-gzip' | '-br' | '-zstd';

/** The tags of a list are quoted strings; a weak mark before one does not matter for If-None-Match (RFC 9110, 13.1.2). */
const LISTED = /(?:W\/)?"([^"]*)"/g;

/** True when an If-None-Match header names this tag, whatever compression it was given out with, or is `*`. */
export function matches(ifNoneMatch: string, tag: string): boolean {
  if (ifNoneMatch === '') return false;
  if (ifNoneMatch.trim() === '*') return true;
  for (const [, listed] of ifNoneMatch.matchAll(LISTED)) {
    if (listed!.replace(/-(gzip|br|zstd)$/, '') === tag) return true;
  }
  return false;
}
