/**
 * How long a value with this checksum lives: between half of `mostMs` and all of it, spread evenly. What was stored in
 * one instant would else expire in one instant; so PostgreSQL is asked for at most 1.5 times as much as on the average.
 */
export function lifetimeMs(mostMs: number, checksum: number): number {
  return Math.floor(mostMs * (1 - checksum / 2 ** 33));
}
