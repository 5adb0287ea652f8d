import { type Namespace, numberOf } from '../../hotels/namespace.ts';
import { CacheArena } from '../arena/arena.ts';
import type { CacheMemory } from '../memory.ts';

/** Looks up keys that are all missed, and requests their pointers. Returns the number of distinct keys. */
export function requestMissed(
  memory: CacheMemory,
  namespace: Namespace,
  keys: string[],
  prefix = '',
): number {
  const { misses } = new CacheArena(memory).gatherKeys(namespace, keys, 'full', 0, Infinity);
  const prefixLength = memory.writePrefix(prefix);
  return memory.wasm.requestPointers(misses, numberOf(namespace), prefixLength);
}

/** Does the same until the batch is one that requests known pointers too. */
export function requestAllMissed(...missed: Parameters<typeof requestMissed>): number {
  const [memory, , keys] = missed;
  for (;;) {
    const count = requestMissed(...missed);
    if (memory.result(2) === keys.length) return count;
  }
}
