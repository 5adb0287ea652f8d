/**
 * Returns the shortest list that still fails, by omitting parts of it (delta debugging, Zeller 1999). If the whole list
 * does not fail again, it is returned: shorter ones would hardly either. `fails` is called only until `isOver`.
 */
export async function shrink<T>(
  items: T[],
  fails: (items: T[]) => Promise<boolean>,
  isOver: () => boolean,
): Promise<T[]> {
  if (isOver() || !(await fails(items))) return items;
  let shortest = items;
  let parts = 2;
  while (shortest.length > 1 && !isOver()) {
    const size = Math.ceil(shortest.length / parts);
    let found = false;
    for (let start = 0; start < shortest.length && !isOver(); start += size) {
      const rest = [...shortest.slice(0, start), ...shortest.slice(start + size)];
      if (await fails(rest)) {
        shortest = rest;
        found = true;
        break;
      }
    }
    if (found) parts = Math.max(2, parts - 1);
    else if (size === 1) break;
    else parts = Math.min(shortest.length, 2 * parts);
  }
  return shortest;
}
