/** Numbers that TypeScript and AssemblyScript share, beside those of hotels/entry-layout.ts and fields.ts. */

/** Maximum number of keys in a batch. */
export const MAX_KEYS = 1000;
/** Maximum length of a key: 255 characters in UTF-8. No hotel has a longer key. */
export const MAX_KEY_BYTES = 1020;
/** Maximum length of an entry: no hotel has more than 70 kB, with its keys. A longer value in Redis is forged. */
export const MAX_ENTRY_BYTES = 0x20000;
/** Maximum length of a response in one piece: to fill much fresh memory takes long. */
export const MAX_RESPONSE_BYTES = 0x800000;
/** Length of a record's header, before its entry: assembly/arena/record.ts. */
export const RECORD_HEADER_BYTES = 32;
/** Length of a record of a table of keys, and the mark of one without an id: assembly/redis-batch/pending-keys.ts. */
export const PENDING_BYTES = 20;
export const GAP = 0x7fffffff;
/** Results of a lookup beside a ref, which is a record's address in units of 8 bytes. */
export const MISS = 0;
export const ABSENT = -1;
/** Ref of an element that adds no body to the response: absent, or a repetition. */
export const NO_BODY = 1;
/** Number of buckets of the window (log/window.ts). */
export const WINDOW_BUCKETS = 0x100000;
/** Status of a lookup; larger than the output. A negative one is the error of a body: assembly/batch-body. */
export const OK = 0;
export const TOO_LARGE = 1;
export const NOT_JSON = -1;
