import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Flood, Flooded } from './flood.ts';

/** Runs a flood in a separate process until its end. */
export async function startFlood(flood: Flood): Promise<Flooded> {
  const child = fork(fileURLToPath(new URL('./flood.ts', import.meta.url)), { execArgv: [] });
  const exited = once(child, 'exit');
  child.send(flood);
  const [flooded] = await once(child, 'message');
  await exited;
  return flooded as Flooded;
}
