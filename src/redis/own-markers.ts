/**
 * Script that sets a write marker and returns the previous one, with the identity of the server's data: process,
 * replication history and number of evicted keys. A server that denies INFO to scripts leaves these empty.
 */
export const SET_MARKER = `
local found = redis.call('getset', KEYS[1], ARGV[1])
local function read(section, field)
  local info = redis.pcall('info', section)
  return type(info) == 'string' and string.match(info, field .. ':(%w+)') or ''
end
return {
  found,
  read('server', 'run_id'),
  read('replication', 'master_replid'),
  read('stats', 'evicted_keys'),
}`;

type MarkerReply = [found: string | null, run: string, history: string, evicted: string];

interface OwnMarker {
  value: string;
  /** identity of the server that took it; '': unknown */
  server: string;
  evicted: number;
}

/** Tracks the write markers of this process, so that an evicted marker does not count as lost data. */
export class OwnMarkers {
  readonly #byKey = new Map<string, OwnMarker>();

  /**
   * Records that `value` was set under a key, and returns the previous marker; null: none. A marker of this process
   * counts as found if the same server with the same history has evicted keys since: it has no older data, and
   * evicted values are read from PostgreSQL. A reply of another form counts as none.
   */
  replaced(key: string, value: string, reply: unknown): string | null {
    if (!Array.isArray(reply) || reply.length !== 4) return null;
    const [found, run, history, evictedText] = reply as MarkerReply;
    const before = this.#byKey.get(key);
    const server = run && history && `${run} ${history}`;
    const evicted = Number(evictedText);
    this.#byKey.set(key, { value, server, evicted });
    if (found !== null) return String(found);
    const isEvicted = before && server !== '' && before.server === server && evicted > before.evicted;
    return isEvicted ? before.value : null;
  }
}

/** Returns the eviction policy from the memory section of INFO; undefined if memory is not limited. */
export function evictionPolicyOf(info: unknown): string | undefined {
  if (typeof info !== 'string') return undefined;
  const [, limit] = /^maxmemory:(\d+)/m.exec(info) ?? [];
  const [, policy] = /^maxmemory_policy:(\S+)/m.exec(info) ?? [];
  return limit === undefined || limit === '0' ? undefined : policy;
}
