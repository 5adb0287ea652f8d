/** Bytes that are held for somebody. */
export interface Held {
  readonly owner: string;
  readonly heldBytes: number;
}

/** Returns the first with bytes of the owner that has the most bytes in all; undefined if none has any. */
export function firstOfLargestOwner<Each extends Held>(all: Iterable<Each>): Each | undefined {
  const bytesOf = new Map<string, number>();
  for (const { owner, heldBytes } of all) bytesOf.set(owner, (bytesOf.get(owner) ?? 0) + heldBytes);
  const most = Math.max(...bytesOf.values());
  for (const each of all) if (each.heldBytes > 0 && bytesOf.get(each.owner) === most) return each;
  return undefined;
}
