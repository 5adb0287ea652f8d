import { random } from './clock.ts';

/**
 * Returns a lifetime between half of `maxMs` and all of it; `draw` is at least 0 and below 1. Values stored together would
 * otherwise expire together. The load of PostgreSQL is at most 1.5 times that of the maximum.
 */
export function lifetimeMs(maxMs: number, draw: number = random()): number {
  return Math.floor(maxMs * (1 - draw / 2));
}
