/** The middle one; of an even number the mean of the two in the middle. */
export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Half the distance between the largest and the smallest, as a part of the median. */
export function spread(values: number[]): number {
  return (Math.max(...values) - Math.min(...values)) / 2 / median(values);
}

/** For people, with three digits that count; thousands are grouped. */
export function significant(value: number): string {
  return value >= 100 ? whole(value) : value.toPrecision(3);
}

/** For people, rounded; thousands are grouped. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
