/** Returns the median; of an even number of values the mean of the two in the middle. */
export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Formats with three significant digits; thousands are grouped. */
export function significant(value: number): string {
  return value >= 100 ? whole(value) : value.toPrecision(3);
}

/** Formats rounded; thousands are grouped. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Returns the value below which this share of the values lies; Infinity without any. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Infinity;
}
