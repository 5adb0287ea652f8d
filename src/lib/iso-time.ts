/** Returns a time as ISO text in UTC; null for none, and for one that JavaScript lacks: `infinity` of SQL, or after the year 275760. */
export function isoTime(time: Date | null): string | null {
  return time === null || Number.isNaN(time.getTime()) ? null : time.toISOString();
}
