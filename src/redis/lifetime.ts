/**
 * Returns the lifetime of a value with this checksum, spread evenly between half of `mostMs` and all of it. Values
 * stored together would otherwise expire together; the load of PostgreSQL is at most 1.5 times the average.
 */
export function lifetimeMs(mostMs: number, checksum: number): number {
  return Math.floor(mostMs * (1 - checksum / 2 ** 33));
}
