const SLOTS = 16_384;
/** Maximum number of masters, to each of which a process has two connections. */
export const MAX_MASTERS = 100;

/**
 * Returns the master of each slot as host:port, undefined for a slot that has none, from a reply to CLUSTER SLOTS
 * (redis.io/docs/latest/commands/cluster-slots). A node that does not know its name sends none: `host` is that of the node
 * that replied. Throws if the reply is no slot map, has no slot, or has more than `MAX_MASTERS` masters.
 */
export function mastersBySlot(reply: unknown, host: string): (string | undefined)[] {
  const bySlot = new Array<string | undefined>(SLOTS).fill(undefined);
  const masters = new Set<string>();
  let slots = 0;
  const wrong = new Error('Redis sent a wrong slot map');
  if (!Array.isArray(reply)) throw wrong;
  for (const range of reply) {
    if (!Array.isArray(range)) throw wrong;
    // the elements behind the master are not read
    const [from, to, master] = range;
    slots += to - from + 1;
    if (!isBelow(from, SLOTS) || !isBelow(to, SLOTS) || from > to || slots > SLOTS) throw wrong;
    if (range.length === 2) continue;
    const [name, port] = Array.isArray(master) ? master : [];
    if (!isNode(name ?? '', port)) throw wrong;
    masters.add(`${name || host}:${port}`);
    bySlot.fill(`${name || host}:${port}`, from, to + 1);
  }
  if (masters.size === 0) throw new Error('the slot map of Redis has no slots');
  if (masters.size > MAX_MASTERS) throw new Error(`the Redis Cluster has over ${MAX_MASTERS} masters`);
  return bySlot;
}

function isNode(host: unknown, port: unknown): boolean {
  return typeof host === 'string' && /^[\w.:%-]{0,255}$/.test(host) && isBelow(port, 65_536);
}

function isBelow(number: unknown, limit: number): boolean {
  return Number.isInteger(number) && (number as number) >= 0 && (number as number) < limit;
}
