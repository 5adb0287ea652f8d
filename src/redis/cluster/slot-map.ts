const SLOTS = 16_384;
/** Maximum number of masters, to each of which a process has two connections. */
export const MAX_MASTERS = 100;

type Range = [from: number, to: number, master?: [host: string | null, port: number]];

/**
 * Returns the master of each slot as host:port, undefined for a slot that has none, from a reply to CLUSTER SLOTS
 * (redis.io/docs/latest/commands/cluster-slots). A node that does not know its name sends none: `host` is that of the node
 * that replied. Throws if the reply is no slot map, has no slot, or has more than `MAX_MASTERS` masters.
 */
export function mastersBySlot(reply: unknown, host: string): (string | undefined)[] {
  if (!isSlotMap(reply)) throw new Error('Redis sent a wrong slot map');
  const bySlot = new Array<string | undefined>(SLOTS).fill(undefined);
  const masters = new Set<string>();
  for (const [from, to, master] of reply) {
    if (!master) continue;
    const name = `${master[0] || host}:${master[1]}`;
    masters.add(name);
    bySlot.fill(name, from, to + 1);
  }
  if (masters.size === 0) throw new Error('the slot map of Redis has no slots');
  if (masters.size > MAX_MASTERS) throw new Error(`the Redis Cluster has over ${MAX_MASTERS} masters`);
  return bySlot;
}

/**
 * Returns true for a slot map that names every slot at most once. The elements behind the master of a range are not read.
 */
function isSlotMap(reply: unknown): reply is Range[] {
  if (!Array.isArray(reply) || !reply.every(isRange)) return false;
  return reply.reduce((sum, [from, to]) => sum + to - from + 1, 0) <= SLOTS;
}

function isRange(range: unknown): range is Range {
  if (!Array.isArray(range)) return false;
  const [from, to, master] = range;
  const isOrdered = isBelow(from, SLOTS) && isBelow(to, SLOTS) && from <= to;
  return isOrdered && (range.length === 2 || isNode(master));
}

function isNode(node: unknown): boolean {
  if (!Array.isArray(node)) return false;
  const host = node[0] ?? '';
  return typeof host === 'string' && /^\S{0,255}$/.test(host) && isBelow(node[1], 65_536);
}

function isBelow(number: unknown, limit: number): boolean {
  return Number.isInteger(number) && (number as number) >= 0 && (number as number) < limit;
}
