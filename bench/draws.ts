/** Returns a reproducible generator of numbers in [0, 1): mulberry32. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns the numbers below `count` in random order. */
export function shuffled(count: number, random: () => number): Uint32Array {
  const numbers = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    const kept = numbers[i]!;
    numbers[i] = numbers[j]!;
    numbers[j] = kept;
  }
  return numbers;
}

/** Returns a generator from 0 to `count` - 1 whose k-th most frequent number has a weight of 1/k: Zipf with exponent 1. */
export function zipf(count: number, random: () => number): () => number {
  const cumulative = new Float64Array(count);
  let sum = 0;
  for (let k = 0; k < count; k++) {
    sum += 1 / (k + 1);
    cumulative[k] = sum;
  }
  // spreads the frequent numbers, which would otherwise be neighbours in memory
  const places = shuffled(count, random);
  return () => {
    const at = random() * sum;
    let low = 0;
    let high = count - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (cumulative[middle]! < at) low = middle + 1;
      else high = middle;
    }
    return places[low]!;
  };
}
