import { inject } from 'vitest';
import { isFree } from '../../src/demo/servers/port.ts';

let portsTaken = 0;

/** Returns a free port for one test file: the service shares ports among its processes, so a clash would go unnoticed. */
export async function ownPort(): Promise<number> {
  const block = inject('servers').firstPort + Number(process.env.VITEST_POOL_ID ?? 0) * 100;
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = block + (portsTaken++ % 100);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port from ${block} on`);
}
