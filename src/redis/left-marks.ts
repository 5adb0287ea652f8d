/**
 * Script that leaves a mark and returns the previous one, with the identity of the server's data: process,
 * replication history and number of evicted keys. A server that denies INFO to scripts leaves these empty.
 */
export const LEAVE_MARK = `
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

/** Result of the script. */
export type MarkReply = [found: string | null, run: string, history: string, evicted: string];

interface Left {
  value: string;
  /** identity of the server that took it; '': unknown */
  server: string;
  evicted: number;
}

/** Tracks the marks that this process left, so that an evicted mark does not count as lost data. */
export class LeftMarks {
  readonly #byKey = new Map<string, Left>();

  /**
   * Records that `value` was left under a key, and returns the previous mark; null: none. A mark of this process
   * counts as found if the same server with the same history has evicted keys since: it has no older data, and
   * evicted values are read from PostgreSQL.
   */
  left(key: string, value: string, [found, run, history, evictedText]: MarkReply): string | null {
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
export function evictionPolicyOf(info: string): string | undefined {
  const [, limit] = /^maxmemory:(\d+)/m.exec(info) ?? [];
  const [, policy] = /^maxmemory_policy:(\S+)/m.exec(info) ?? [];
  return limit === undefined || limit === '0' ? undefined : policy;
}
