/**
 * Where things are in the relay's memory, behind what the arena's parser and hash use of it (INPUT, ELEMENTS, GAPS
 * and RESULT: ../arena/layout.ts).
 */

/** What stands before every key of a command. */
export const PREFIX: usize = 0x50000;
/** Numbers of the elements by hash, u16 each, to tell which are asked for twice. */
export const SEEN: usize = 0x51000;
export const SEEN_SLOTS: u32 = 4096;
/** Where the values of a reply with pointers are: i32 start and i32 length of each, the length -1 for null. */
export const PLACES: usize = 0x54000;
/** What one batch wants, while it is asked for and pointed: the table of wanted.ts. */
export const SCRATCH: usize = 0x60000;
/** The same of the batch whose entries arrive at present. */
export const STREAMED: usize = 0x100000;
/** A command for Redis. */
export const COMMAND: usize = 0x1a0000;
/** A reply with pointers. */
export const POINTERS: usize = 0x480000;
export const POINTERS_BYTES: u32 = 0x80000;
/** Bytes of a reply with entries that are not looked at yet. */
export const REPLY: usize = 0x500000;
export const REPLY_BYTES: u32 = 0x1000000;
/** The answer. */
export const OUTPUT: usize = REPLY + REPLY_BYTES;
export const OUTPUT_BYTES: u32 = 0x2000000;
/** Two tables of changes, of 16 bytes a slot. */
export const CHANGES: usize = OUTPUT + OUTPUT_BYTES;
export const CHANGES_SLOTS: u32 = 0x80000;
