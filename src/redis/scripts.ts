import type { RejectedValue, Versioned, WindowCount, WindowUse } from './store.ts';

/**
 * Script that stores versioned values. KEYS: the keys. ARGV[1]: the maximum lifetime in ms. Then one value per key,
 * then per key (or for none) the newer version that may be replaced, or an empty text. A value begins with a
 * checksum, which spreads its lifetime (see `lifetimeMs`), and has a magic number at byte 4 and its version as a
 * little-endian double at byte 8. A stored value with a larger version stays; anything else is replaced. Returns the
 * index (from 1) and the stored version of each rejected value.
 */
export const STORE_NEWER = `
local rejected = {}
for i = 1, #KEYS do
  local value = ARGV[i + 1]
  local head = redis.pcall('getrange', KEYS[i], 4, 15)
  local stored
  if type(head) == 'string' and #head == 12 and string.sub(head, 1, 4) == string.sub(value, 5, 8) then
    stored = struct.unpack('<d', string.sub(head, 5, 12))
  end
  local over = tonumber(ARGV[1 + #KEYS + i] or '')
  if stored and stored > struct.unpack('<d', string.sub(value, 9, 16)) and stored ~= over then
    rejected[#rejected + 1] = i
    rejected[#rejected + 1] = string.format('%.17g', stored)
  else
    local share = 1 - struct.unpack('<I4', value) / 8589934592
    redis.call('set', KEYS[i], value, 'PX', math.floor(ARGV[1] * share))
  end
end
return rejected`;

/**
 * Script that sets KEYS. ARGV[1] is NX to set only missing keys; then a value and its lifetime in ms per key.
 * Separate commands would take the client ten times as long.
 */
export const SET_EACH = `
for i = 1, #KEYS do
  if ARGV[1] == 'NX' then redis.call('set', KEYS[i], ARGV[2 * i], 'PX', ARGV[2 * i + 1], 'NX')
  else redis.call('set', KEYS[i], ARGV[2 * i], 'PX', ARGV[2 * i + 1]) end
end`;

/** Returns the last arguments of STORE_NEWER; none if no newer value may be replaced. */
export function oversOf(values: Versioned[]): string[] {
  return values.some(([, , over]) => over !== undefined) ? values.map(([, , over = '']) => over) : [];
}

/**
 * Decodes a reply of the script for `count` values of which the first had the index `start`; undefined if it is none.
 */
export function rejectedOf(reply: unknown, start: number, count: number): RejectedValue[] | undefined {
  if (!Array.isArray(reply)) return undefined;
  const rejected: RejectedValue[] = [];
  for (let i = 0; i < reply.length; i += 2) {
    const place = Number(reply[i]);
    if (!Number.isInteger(place) || place < 1 || place > count) return undefined;
    rejected.push([start + place - 1, String(reply[i + 1])]);
  }
  return rejected;
}

/** Joins the decoded replies for parts of the values; undefined if one is missing. */
export function allRejected(parts: (RejectedValue[] | undefined)[]): RejectedValue[] | undefined {
  return parts.includes(undefined) ? undefined : (parts as RejectedValue[][]).flat();
}

/**
 * Script that counts the uses of KEYS[1] in a window. ARGV: the limit, the length of a window in ms, uses to be added
 * without regard to the limit, and uses that are wanted. A window begins with its first use. Returns the uses granted,
 * those left, and the time in ms until the window ends.
 */
export const COUNT_WINDOW = `
local limit = tonumber(ARGV[1])
local used = tonumber(redis.call('getrange', KEYS[1], 0, -1))
local endsIn = redis.call('pttl', KEYS[1])
if not used or endsIn <= 0 then
  used = 0
  endsIn = tonumber(ARGV[2])
end
used = used + tonumber(ARGV[3])
local granted = math.max(0, math.min(tonumber(ARGV[4]), limit - used))
used = used + granted
redis.call('set', KEYS[1], used, 'PX', endsIn)
return {granted, math.max(0, limit - used), endsIn}`;

/** Returns the arguments of `COUNT_WINDOW` after the key. */
export function windowArguments({ limit, windowMs, taken, wanted }: WindowUse): number[] {
  return [limit, windowMs, taken, wanted];
}

/** Decodes the reply of `COUNT_WINDOW`; undefined if it is none. */
export function windowCountOf(reply: unknown): WindowCount | undefined {
  if (!Array.isArray(reply) || reply.length !== 3 || !reply.every(Number.isFinite)) return undefined;
  const [granted, left, resetInMs] = reply as [number, number, number];
  return { granted, left, resetInMs };
}

/** Checks the reply of SCAN; undefined if it is none. */
export function scannedOf(reply: unknown): [cursor: string, keys: string[]] | undefined {
  if (!Array.isArray(reply) || typeof reply[0] !== 'string' || !Array.isArray(reply[1])) return undefined;
  return [reply[0], reply[1].map(String)];
}
