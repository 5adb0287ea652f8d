/** Offsets of the fields that TypeScript and AssemblyScript share, beside those of hotels/entry-layout.ts; all are u32. */

/** Record of the arena: length of what follows its header (assembly/arena/record.ts). */
export const RECORD_LENGTH = 28;
/** Record of a table of keys (assembly/redis-batch/pending-keys.ts). */
export const PENDING_KEY = 0;
export const PENDING_KEY_LENGTH = 4;
export const PENDING_ID = 8;
export const PENDING_ID_LENGTH = 12;
export const PENDING_PLACE = 16;
/** RESULT of a lookup of a batch. */
export const LOOKUP_HITS = 0;
export const LOOKUP_ABSENCES = 4;
export const LOOKUP_MISSES = 8;
export const LOOKUP_OUTPUT_LENGTH = 12;
export const LOOKUP_COUNT = 32;
/** RESULT of what writes a command for Redis: the keys that the first requests, the invalid values that the second has read. */
export const COMMAND_LENGTH = 0;
export const TABLE_LENGTH = 4;
export const REQUESTED_POINTERS = 8;
export const INVALID_POINTERS = 8;
/** RESULT of what takes the entries. */
export const RESPONSE_LENGTH = 0;
export const RESPONSE_GAPS = 4;
export const RESPONSE_HITS = 8;
export const RESPONSE_INVALID = 12;
export const RESPONSE_IS_FULL = 16;
