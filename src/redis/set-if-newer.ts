/**
 * Stores versioned values: KEYS the keys, ARGV[1] the longest time to live in ms, then one value a key. Every value
 * begins with a checksum, by which it lives down to half as long (see `lifetimeMs`), and carries a magic number at
 * byte 4 and its version as a little-endian double at byte 8; what stands there
 * with a larger version stays, anything that is no such value is replaced. Returns the places (from 1) of
 * those that were refused.
 */
export const STORE_NEWER = `
local refused = {}
for i = 1, #KEYS do
  local value = ARGV[i + 1]
  local head = redis.pcall('getrange', KEYS[i], 4, 15)
  local newer = false
  if type(head) == 'string' and #head == 12 and string.sub(head, 1, 4) == string.sub(value, 5, 8) then
    newer = struct.unpack('<d', string.sub(head, 5, 12)) > struct.unpack('<d', string.sub(value, 9, 16))
  end
  if newer then
    refused[#refused + 1] = i
  else
    local share = 1 - struct.unpack('<I4', value) / 8589934592
    redis.call('set', KEYS[i], value, 'PX', math.floor(ARGV[1] * share))
  end
end
return refused`;
