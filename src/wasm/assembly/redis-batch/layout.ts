/** Layout of the memory, behind the parts that the arena's parser and hash use (INPUT, ELEMENTS, GAPS, RESULT: ../arena/layout.ts). */

/** Prefix of every key of a command. */
export const PREFIX: usize = 0x50000;
/** Indexes of the elements by hash, u16 each, to find repetitions. */
export const SEEN: usize = 0x51000;
export const SEEN_SLOTS: u32 = 4096;
/** Places of the pointers of a reply: i32 start and i32 length of each, length -1 for null. */
export const PLACES: usize = 0x54000;
/** Table (pending-keys.ts) of the batch that is prepared. */
export const SCRATCH: usize = 0x60000;
/** Table of the batch whose entries are arriving. */
export const STREAMED: usize = 0x100000;
/** Command for Redis. */
export const COMMAND: usize = 0x1a0000;
/** Reply with pointers. */
export const POINTERS: usize = 0x480000;
export const POINTERS_BYTES: u32 = 0x80000;
/** Unread bytes of a reply with entries. */
export const REPLY: usize = 0x500000;
export const REPLY_BYTES: u32 = 0x1000000;
/** Response of the batch. */
export const OUTPUT: usize = REPLY + REPLY_BYTES;
export const OUTPUT_BYTES: u32 = 0x2000000;
/** Buckets of the window (window.ts), 8 bytes each, and its floor. */
export const WINDOW: usize = OUTPUT + OUTPUT_BYTES;
export const WINDOW_BUCKETS: u32 = 0x100000;
/** Arrays of the local hits of waiting batches, without their closing brackets: each body ends with a comma. */
export const HITS: usize = 0x3d01000;
export const HITS_BYTES: u32 = 0x4000000;
/** Sets of pointer-cache.ts, 160 bytes each: 10 MiB for 262,144 pointers. */
export const POINTER_CACHE: usize = HITS + HITS_BYTES;
export const POINTER_SETS: u32 = 0x10000;
