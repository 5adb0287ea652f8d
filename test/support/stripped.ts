import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Environment in which a process of the product takes its files from `stripSources`. */
export const STRIPPED = { NODE_OPTIONS: `--import=${new URL('./stripped-hook.mjs', import.meta.url).href}` };

/**
 * Strips the types of the product's files. Node does the same at each start, for half of its CPU time, and the tests
 * start more than a thousand processes.
 */
export async function stripSources(): Promise<void> {
  // a process of its own hides the warning that the function of Node is experimental
  const script = fileURLToPath(new URL('./strip-sources.ts', import.meta.url));
  await promisify(execFile)(process.execPath, [script]);
}
