/** Returns true for a string of at most so many UTF-16 code units. */
export function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value.length <= maxLength;
}

/** Returns true for an integer from 0 that a double holds exactly. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
