/**
 * Layout of an entry: a hotel in the caches, as the final JSON of the response behind a fixed header. Redis and the local
 * cache hold the same bytes. Numbers are little endian. TypeScript and AssemblyScript share this file.
 *
 * `registry_id` is the last field of the body, so the narrow view is the shared part and `null}`. `certified` and
 * `certification_url` change at two midnights. The entry of a hotel with such dates also holds their other values: the program
 * of the caches exchanges them in place when the time has come.
 */

/** u32: `MAGIC` of encode.ts */
export const MAGIC_AT = 0;
/** u32: length of the body */
export const BODY_LENGTH_AT = 4;
/** f64: label, the position of the log at which the hotel was read */
export const LABEL_AT = 8;
/** f64: times (epoch ms) from which, and before which, the hotel is certified; both 0 if it never is */
export const CERTIFIED_FROM_AT = 16;
export const CERTIFIED_UNTIL_AT = 24;
/** tags of the views (for ETag): characters of one byte */
export const NARROW_TAG_AT = 32;
export const FULL_TAG_AT = 44;
export const TAG_BYTES = 12;
/** u32: length of the part of the body that both views share */
export const SHARED_LENGTH_AT = 56;
/** u16 each: lengths of the id, the channel id and the registry id (decimal digits); 0 for null */
export const KEY_LENGTHS_AT = 60;
/** u16: 1 if the body shows the hotel as certified, else 0 */
export const SHOWN_AT = 66;
/** u16 each: lengths of `certification_url` (JSON), and of what is between it and `certified` */
export const URL_LENGTH_AT = 68;
export const BETWEEN_LENGTH_AT = 70;
/** u32: length of the part of the body before the value of `certified` */
export const HEAD_LENGTH_AT = 72;
/** u32: length of the part behind the body, 0 if there is none: the other values of both fields, and tags as above */
export const OTHER_LENGTH_AT = 76;
/** the three keys, the body and the part behind it follow the header */
export const HEADER_BYTES = 80;
