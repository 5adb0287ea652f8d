import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Server as HttpServer } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const closers: { what: string; close: () => Promise<void> }[] = [];
const faults: string[] = [];

/** Registers `close` for the end of the file's tests. It may also be called earlier, so it must be idempotent. */
export function closeAtEnd(what: string, close: () => Promise<void>): void {
  closers.push({ what, close });
}

/** Reports a remainder or defect of a test; the file fails for it. */
export function fault(sentence: string): void {
  faults.push(sentence);
}

/** Closes everything, last first, and throws if faults were reported. */
export async function closeAll(): Promise<void> {
  for (let next = closers.pop(); next; next = closers.pop()) {
    await next.close().catch((error: Error) => fault(`${next!.what}: ${error.message}`));
  }
  const found = faults.splice(0);
  if (found.length > 0) throw new Error(`not cleaned up:\n${found.join('\n')}`);
}

/** Polls until `look` returns an empty array or the time is over; returns its last result. */
export async function untilGone<T>(look: () => Promise<T[]>, timeoutMs = 3_000): Promise<T[]> {
  const untilMs = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found.length === 0 || performance.now() > untilMs) return found;
    await sleep(20);
  }
}

/** Creates a folder whose name begins with this; it is removed at the end of the file. */
export async function temporaryFolder(prefix: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), prefix));
  closeAtEnd(`folder ${folder}`, () => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Lets a server listen on a free port of the loopback until the end of the file. Returns the port. */
export async function listen(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  closeAtEnd('a server', async () => {
    server.close();
    if (server instanceof HttpServer) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}
