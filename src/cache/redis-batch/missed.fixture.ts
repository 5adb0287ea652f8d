import { expect } from 'vitest';
import { type Namespace, numberOf } from '../../hotels/namespace.ts';
import { CacheArena } from '../arena/arena.ts';
import type { CacheMemory } from '../memory.ts';
import { PendingKeys } from './pending-keys.ts';
import { type Read, SharedReply, takeEntries } from './replies.ts';

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

/** Keys of which `named` entries are requested. */
export interface Pointed {
  pending: PendingKeys;
  named: number;
}

/** Follows the pointers in these values for the last keys that were requested; undefined: none. */
export function follow(
  memory: CacheMemory,
  namespace: Namespace,
  count: number,
  values: (Buffer | undefined)[],
): Pointed {
  const { wasm, bytes, words } = memory;
  const table = memory.takePending();
  let at = 0;
  const places = values.flatMap((value) => {
    if (value === undefined) return [0, -1];
    bytes.set(value, wasm.REPLY.value + at);
    at += value.length;
    return [at - value.length, value.length];
  });
  words.set(places, wasm.PLACES.value / 4);
  bytes.set(table, wasm.SCRATCH.value);
  const prefixLength = memory.writePrefix('7:h:');
  const named = wasm.requestEntries(count, table.length, numberOf(namespace), prefixLength, 0, 0);
  return { pending: new PendingKeys(namespace, count, memory.takePending()), named };
}

/** Reads the reply with the entries of these keys. */
export function readEntries(memory: CacheMemory, { pending, named }: Pointed, reply: Buffer): Read {
  let read: Read | undefined;
  const shared = new SharedReply(memory, named, () => {
    read = takeEntries(memory, pending, 'full');
  });
  expect(shared.take(reply, 0)).toBe(reply.length);
  shared.complete();
  return read!;
}
