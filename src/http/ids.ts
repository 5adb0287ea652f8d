/** Longest id a hotel can carry, in characters (the schema's constraint). */
const MAX_ID_CHARACTERS = 255;
/** sign, then digits without leading zeros */
const INTEGER = /^(-?)0*(\d+)$/;
const MIN_BIGINT = -(2n ** 63n);
const MAX_BIGINT = 2n ** 63n - 1n;

/** True when a hotel may carry this text as its id or channel id; what cannot be stored needs no look-up. */
export function mayBeId(text: string): boolean {
  const { length } = text;
  // an astral character counts once for the schema and twice here
  return length > 0 && length <= 2 * MAX_ID_CHARACTERS && !text.includes('\0') && text.isWellFormed();
}

/** Decodes a path parameter; undefined when it is no percent-encoded UTF-8 or no id that a hotel can carry. */
export function decodeId(parameter: string): string | undefined {
  // bytes that were no UTF-8 have already become replacement characters
  if (parameter.includes('\ufffd')) return undefined;
  if (!parameter.includes('%')) return mayBeId(parameter) ? parameter : undefined;
  try {
    const text = decodeURIComponent(parameter);
    return mayBeId(text) ? text : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Reads a registry id: its canonical decimal digits, null for an integer that no hotel can carry
 * (beyond 64 bits), undefined for what is no integer.
 */
export function readRegistryId(text: string): string | null | undefined {
  const parts = INTEGER.exec(text);
  if (!parts) return undefined;
  const digits = parts[2]!;
  if (digits.length > 19) return null;
  const value = BigInt(parts[1]! + digits);
  return value < MIN_BIGINT || value > MAX_BIGINT ? null : String(value);
}
