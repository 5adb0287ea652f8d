/**
 * Layout of an entry: a hotel in the caches, as the final JSON of the response behind a fixed header. Redis and the local
 * cache hold the same bytes. An entry may also state that a hotel is absent. Numbers are little endian. TypeScript and
 * AssemblyScript share this file.
 *
 * `registry_id` is the last field of the body, so the narrow view is the shared part and `null}`. The certification URL
 * and both dates are stored beside the body, so that a flipped certification needs no query.
 */

/** u32 */
export const MAGIC_AT = 0;
export const MAGIC = 0x34444548;
/** u32: length of the body */
export const BODY_LENGTH_AT = 4;
/** f64: label, the position of the log at which the hotel was read */
export const LABEL_AT = 8;
/** f64: time at which `certified` flips, epoch ms; Infinity if it never does */
export const VALID_UNTIL_AT = 16;
/** tags of the views (for ETag): characters of one byte */
export const NARROW_TAG_AT = 24;
export const FULL_TAG_AT = 36;
export const TAG_BYTES = 12;
/** i32: days since 1970-01-01, or NO_DAY for null */
export const FROM_DAY_AT = 48;
export const UNTIL_DAY_AT = 52;
export const NO_DAY = -2_147_483_648;
/** u32: length of the part of the body that both views share */
export const SHARED_LENGTH_AT = 56;
/** u32: offset of the certification fields in the body; u16: their length */
export const CERTIFICATION_AT = 60;
export const CERTIFICATION_LENGTH_AT = 64;
/** u16: lengths of the keys, and of the certification URL as JSON, 0 for null */
export const ID_LENGTH_AT = 66;
export const CHANNEL_LENGTH_AT = 68;
export const URL_LENGTH_AT = 70;
/** u8: number of decimal digits, 0 for null */
export const REGISTRY_LENGTH_AT = 72;
/** u8 */
export const FLAGS_AT = 73;
export const PRESENT = 1;
/** u16: zero */
export const RESERVED_AT = 74;
/** id, channel id, registry id, certification URL and body follow the header */
export const HEADER_BYTES = 76;
