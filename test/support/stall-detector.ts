import { setTimeout as sleep } from 'node:timers/promises';
import { promisedMs } from './form.ts';

/** How often it is looked whether this process stands still. */
const TICK_MS = 20;
/** A turn of the event loop may take so long; what it takes beyond that it stood still. */
const TURN_MS = 20;
/** Between two looks at what is to come. */
const PAUSE_MS = 20;

let stoodStillMs = 0;
/** what is older is forgotten */
const MAX_STALLS = 1_000;
const stalls: { atMs: number; ms: number }[] = [];
let dueAtMs = performance.now() + TICK_MS;

const lateMs = () => Math.max(0, performance.now() - dueAtMs - TURN_MS);

function tick(): void {
  const ms = lateMs();
  if (ms > 0) {
    stalls.push({ atMs: ownTimeMs(), ms });
    if (stalls.length > MAX_STALLS) stalls.shift();
    stoodStillMs += ms;
  }
  dueAtMs = performance.now() + TICK_MS;
  setTimeout(tick, TICK_MS).unref();
}
setTimeout(tick, TICK_MS).unref();

/**
 * A clock in ms that stands while this process does, because its event loop is busy or the machine is: an answer that
 * came in time may lie unread meanwhile, and what was to be asked is asked late. (See `Patience` in src/redis.)
 */
export function ownTimeMs(): number {
  return performance.now() - stoodStillMs - lateMs();
}

/** For how long this process stood still in the last so many ms of its own time. */
export function stoodStillIn(ownMs: number): number {
  const sinceMs = ownTimeMs() - ownMs;
  return stalls.reduce((sum, { atMs, ms }) => (atMs >= sinceMs ? sum + ms : sum), lateMs());
}

/**
 * Asks again and again until what is found is right, for so many ms (`promisedMs`) of this process' own time; then throws what
 * `judge` throws of it. Returns what it found.
 */
export async function within<T>(
  timeoutMs: number,
  ask: () => T | Promise<T>,
  judge: (found: T) => void,
): Promise<T> {
  const beganMs = ownTimeMs();
  for (;;) {
    const found = await ask();
    const tookMs = ownTimeMs() - beganMs;
    try {
      judge(found);
      return found;
    } catch (error) {
      if (tookMs > promisedMs(timeoutMs)) throw error;
    }
    await sleep(PAUSE_MS);
  }
}
