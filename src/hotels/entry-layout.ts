/**
 * Layout of an entry: a hotel in the caches, as the final JSON of the response behind a fixed header. Redis and the local
 * cache hold the same bytes. An entry without a body states that a hotel is absent. Numbers are little endian. TypeScript and
 * AssemblyScript share this file.
 *
 * `registry_id` is the last field of the body, so the narrow view is the shared part and `null}`. The body and the certification
 * URL, if that is not in it, are all of a hotel: when `certified` flips, it is encoded again without a query.
 */

/** u32: `MAGIC` of encode.ts */
export const MAGIC_AT = 0;
/** u32: length of the body */
export const BODY_LENGTH_AT = 4;
/** f64: label, the position of the log at which the hotel was read */
export const LABEL_AT = 8;
/** f64: times (epoch ms) from which, and before which, `certified` in the body is right */
export const VALID_FROM_AT = 16;
export const VALID_UNTIL_AT = 24;
/** tags of the views (for ETag): characters of one byte */
export const NARROW_TAG_AT = 32;
export const FULL_TAG_AT = 44;
export const TAG_BYTES = 12;
/** u32: length of the part of the body that both views share */
export const SHARED_LENGTH_AT = 56;
/** u16 each: lengths of the id, the channel id and the registry id (decimal digits); 0 for null */
export const KEY_LENGTHS_AT = 60;
/** u16: length of the certification URL (JSON) that the body shows at another time; 0 if there is none */
export const URL_LENGTH_AT = 66;
/** the three keys, that URL and the body follow the header */
export const HEADER_BYTES = 68;
