/**
 * Returns a source of reproducible random numbers (splitmix32): each call draws a whole number from 0 to `bound` - 1. It starts
 * with a pair of whole numbers; similar pairs give unrelated numbers.
 */
export function drawFrom(seed: number, index: number): (bound: number) => number {
  let state = mix(mix(seed) ^ mix(index + 0x9e3779b9));
  return (bound) => {
    state = (state + 0x9e3779b9) | 0;
    return Math.floor((bound * (mix(state) >>> 0)) / 2 ** 32);
  };
}

function mix(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
  return bits ^ (bits >>> 15);
}
