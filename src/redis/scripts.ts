import type { Refusal, Versioned } from './store.ts';

/**
 * Stores versioned values: KEYS the keys, ARGV[1] the longest time to live in ms, then one value a key, then for each key
 * (or for none) the version that may be replaced although it is newer, or an empty text. Every value
 * begins with a checksum, by which it lives down to half as long (see `lifetimeMs`), and carries a magic number at
 * byte 4 and its version as a little-endian double at byte 8; what stands there
 * with a larger version stays, anything that is no such value is replaced. Returns of each that was refused the place
 * (from 1) and the version that stands there.
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
 * Sets KEYS; ARGV[1] is NX where only those are set that have no value yet, then come a value and its time to live in ms for
 * each. A command for each key would take the client ten times as long.
 */
export const SET_EACH = `
for i = 1, #KEYS do
  if ARGV[1] == 'NX' then redis.call('set', KEYS[i], ARGV[2 * i], 'PX', ARGV[2 * i + 1], 'NX')
  else redis.call('set', KEYS[i], ARGV[2 * i], 'PX', ARGV[2 * i + 1]) end
end`;

/** The last arguments of STORE_NEWER; none where nothing newer may be replaced. */
export function oversOf(values: Versioned[]): string[] {
  return values.some(([, , over]) => over !== undefined) ? values.map(([, , over = '']) => over) : [];
}

/** What the script answered for values of which the first had this place. */
export function refusalsOf(answer: (number | string)[], start: number): Refusal[] {
  return Array.from({ length: answer.length / 2 }, (_, i) => [
    start + Number(answer[2 * i]) - 1,
    String(answer[2 * i + 1]),
  ]);
}
