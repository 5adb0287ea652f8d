import type { Refusal, Versioned } from './store.ts';

/**
 * Script that stores versioned values. KEYS: the keys. ARGV[1]: the maximum lifetime in ms. Then one value per key,
 * then per key (or for none) the newer version that may be replaced, or an empty text. A value begins with a
 * checksum, which spreads its lifetime (see `lifetimeMs`), and has a magic number at byte 4 and its version as a
 * little-endian double at byte 8. A stored value with a larger version stays; anything else is replaced. Returns the
 * index (from 1) and the stored version of each rejected value.
 */
export const STORE_NEWER = `
local refused = {}
for i = 1, #KEYS do
  local value = ARGV[i + 1]
  local head = redis.pcall('getrange', KEYS[i], 4, 15)
  local stands
  if type(head) == 'string' and #head == 12 and string.sub(head, 1, 4) == string.sub(value, 5, 8) then
    stands = struct.unpack('<d', string.sub(head, 5, 12))
  end
  local over = tonumber(ARGV[1 + #KEYS + i] or '')
  if stands and stands > struct.unpack('<d', string.sub(value, 9, 16)) and stands ~= over then
    refused[#refused + 1] = i
    refused[#refused + 1] = string.format('%.17g', stands)
  else
    local share = 1 - struct.unpack('<I4', value) / 8589934592
    redis.call('set', KEYS[i], value, 'PX', math.floor(ARGV[1] * share))
  end
end
return refused`;

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

/** Decodes a reply of the script for values of which the first had this index. */
export function refusalsOf(answer: (number | string)[], start: number): Refusal[] {
  return Array.from({ length: answer.length / 2 }, (_, i) => [
    start + Number(answer[2 * i]) - 1,
    String(answer[2 * i + 1]),
  ]);
}
