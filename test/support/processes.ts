import { processes } from '../../src/demo/servers/processes.ts';

/** Returns the running children of `pid`. */
export async function childrenOf(pid: number): Promise<number[]> {
  return (await processes()).filter(({ parent }) => parent === pid).map((child) => child.pid);
}

export async function descendantsOf(pid: number): Promise<number[]> {
  const all = await processes();
  const found = [pid];
  // the list grows while it is iterated
  for (const parent of found) for (const child of all) if (child.parent === parent) found.push(child.pid);
  return found.slice(1);
}

/** Returns the running processes of a group. */
export async function groupOf(leader: number): Promise<number[]> {
  return (await processes()).filter(({ group }) => group === leader).map(({ pid }) => pid);
}

/** Returns those of these processes that run. */
export async function runningOf(pids: number[]): Promise<number[]> {
  return (await processes()).map(({ pid }) => pid).filter((pid) => pids.includes(pid));
}
