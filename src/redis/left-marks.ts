/**
 * Leaves a mark and returns the one before it, with what identifies the server's data: the process, the history of its
 * replication, and how many keys it has evicted. A server that does not give INFO to scripts leaves these empty.
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

/** What the script returns. */
export type MarkReply = [found: string | null, run: string, history: string, evicted: string];

interface Left {
  value: string;
  /** of the server that took it; '': unknown */
  server: string;
  evicted: number;
}

/** The marks that this process left, and where: so that an evicted mark is not taken for lost data. */
export class LeftMarks {
  readonly #byKey = new Map<string, Left>();

  /**
   * Notes that `value` was left under a key, and returns what stood there before; null: nothing. A mark that this process
   * left counts as found if the same server, with the same history, has evicted keys since: such a server has no older
   * data, and what it evicted is read from PostgreSQL.
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

/** The eviction policy, from what INFO says of memory; undefined where memory is not limited. */
export function evictionPolicyOf(info: string): string | undefined {
  const [, limit] = /^maxmemory:(\d+)/m.exec(info) ?? [];
  const [, policy] = /^maxmemory_policy:(\S+)/m.exec(info) ?? [];
  return limit === undefined || limit === '0' ? undefined : policy;
}
