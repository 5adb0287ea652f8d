import { setTimeout as sleep } from 'node:timers/promises';

const closers: { what: string; close: () => Promise<void> }[] = [];
const faults: string[] = [];

/** Has `close` called when the file's tests are over; it may be called before, so it must work more than once. */
export function closeAtEnd(what: string, close: () => Promise<void>): void {
  closers.push({ what, close });
}

/** Notes what a test left behind or broke; the file fails for it. */
export function fault(sentence: string): void {
  faults.push(sentence);
}

/** Closes what is open, last first, and throws when anything was left behind. */
export async function closeAll(): Promise<void> {
  for (let next = closers.pop(); next; next = closers.pop()) {
    await next.close().catch((error: Error) => fault(`${next!.what}: ${error.message}`));
  }
  const found = faults.splice(0);
  if (found.length > 0) throw new Error(`left behind:\n${found.join('\n')}`);
}

/** Looks again until `look` finds nothing or the time is over; what it found last. */
export async function settle<T>(look: () => Promise<T[]>, timeoutMs = 1_000): Promise<T[]> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found.length === 0 || performance.now() > until) return found;
    await sleep(20);
  }
}
