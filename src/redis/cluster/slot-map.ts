import { Command } from 'ioredis';

export const SLOTS = 16_384;
/** Maximum number of nodes, to each of which a process connects. */
export const MAX_NODES = 1_000;
/** Maximum number of nodes that have the same slots. */
const MAX_COPIES = 32;

/** Rejects slot maps that are none. ioredis would throw outside of any handler, or take any number for slots and nodes. */
export function checkSlotMaps(): void {
  Command.setReplyTransformer('cluster', (reply) => {
    if (!isSlotMap(reply)) throw new Error('Redis sent a wrong slot map');
    return reply;
  });
}

function isSlotMap(reply: unknown): boolean {
  if (!Array.isArray(reply) || !reply.every(isRange)) return false;
  const slots = reply.reduce((sum, [from, to]) => sum + to - from + 1, 0);
  const nodes = new Set(
    reply.flatMap(([, , ...nodes]) => nodes.map((node: unknown[]) => `${node.slice(0, 2)}`)),
  );
  return slots <= SLOTS && nodes.size <= MAX_NODES;
}

function isRange(range: unknown): boolean {
  if (!Array.isArray(range)) return false;
  const [from, to, ...nodes] = range;
  const isOrdered = isBelow(from, SLOTS) && isBelow(to, SLOTS) && from <= to;
  return isOrdered && nodes.length <= MAX_COPIES && nodes.every(isNode);
}

/** The name of a node may be unknown. */
function isNode(node: unknown): boolean {
  if (!Array.isArray(node)) return false;
  const host = node[0] ?? '';
  return typeof host === 'string' && /^\S{0,255}$/.test(host) && isBelow(node[1], 65_536);
}

function isBelow(number: unknown, limit: number): boolean {
  return Number.isInteger(number) && (number as number) >= 0 && (number as number) < limit;
}
