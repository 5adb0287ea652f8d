/** Kind of key of a hotel: its own id, its channel id, its registry id (canonical decimal digits). */
export type Namespace = 'id' | 'channel' | 'registry';

/** Returns the number of a namespace in src/wasm/assembly; a property by a variable name would be a search. */
export function numberOf(namespace: Namespace): number {
  return namespace === 'id' ? 0 : namespace === 'channel' ? 1 : 2;
}

/** Prefixes of the keys of a namespace, in Redis (behind that of the history) and in maps of several namespaces. */
export const KEY_PREFIX = { id: 'h:', channel: 'c:', registry: 'r:' } as const;

/** Maximum length of an id in characters (the schema's constraint). */
export const MAX_ID_CHARACTERS = 255;
const MIN_BIGINT = -(2n ** 63n);
const MAX_BIGINT = 2n ** 63n - 1n;

/** Returns false for a key that no hotel can have: it needs no lookup, and PostgreSQL would reject it. */
export function mayExist(namespace: Namespace, key: string): boolean {
  const { length } = key;
  if (namespace !== 'registry') {
    // an astral character counts once in the schema and twice here
    return length > 0 && length <= 2 * MAX_ID_CHARACTERS && !key.includes('\0') && key.isWellFormed();
  }
  if (length < 19) return true;
  if (length > 20) return false;
  const value = BigInt(key);
  return value >= MIN_BIGINT && value <= MAX_BIGINT;
}
