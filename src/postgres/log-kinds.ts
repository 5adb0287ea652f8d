/**
 * Kinds of rows of `hotel_api_log` that caches apply; see sql/005-log.sql. `all_…`: anything of that table may have changed.
 */
export const LOG_KINDS = [
  'hotels',
  'keys',
  'members',
  'collections',
  'all_hotels',
  'all_keys',
  'all_collections',
] as const;
export type LogKind = (typeof LOG_KINDS)[number];
