/** Separates the name of the term from its count in a marker. */
const COUNTED = ':';

/** Returns the key of the marker that the active invalidator leaves after every write. */
export function markerKey(history: string): string {
  return `${history}:marker`;
}

/** Returns the marker after this number of writes of a term. */
export function markerOf(term: string, count: number): string {
  return `${term}${COUNTED}${count}`;
}

export function isOfSameTerm(a: string, b: string): boolean {
  return a.split(COUNTED)[0] === b.split(COUNTED)[0];
}

/**
 * Returns true if the found marker is the announced one, or a later one of the same term, whose session ended before
 * its announcement. Redis then holds everything that was written before the announced marker.
 */
export function isNoOlder(found: string, announced: string): boolean {
  const count = (marker: string) => Number(marker.split(COUNTED)[1]);
  return isOfSameTerm(found, announced) && count(found) >= count(announced);
}
