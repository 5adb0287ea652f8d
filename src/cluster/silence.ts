import { readFileSync } from 'node:fs';

/** Workers report once a second; one that is silent for this long and gets nothing done is frozen. */
export const FROZEN_MS = 2_500;
/** One that is silent for this long, and that the system calls stopped, need not be waited for longer. */
export const STOPPED_MS = 1_500;
/** What a start may take: on a busy machine it does not say a word for seconds. */
export const START_MS = 12_500;
/** One that used the processor for this long without a word does not come back: no request takes so much. */
export const ENDLESS_MS = 10_000;
/** Of a tick of /proc: USER_HZ is 100 on every Linux. */
const MS_PER_TICK = 10;

/** What the system tells of the main thread of a process. */
export interface MainThread {
  /** by a signal */
  stopped: boolean;
  /** that it has used so far */
  processorMs: number;
}

/** Undefined where the system does not tell: it is not Linux, or the process has just ended. */
export function mainThreadOf(pid: number): MainThread | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8');
    // pid (name, which may hold anything) state ppid …
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return {
      stopped: fields[0] === 'T',
      processorMs: (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK,
    };
  } catch {
    return undefined;
  }
}

/** Tells a worker that does not speak because it is busy from one that will not speak again. */
export class LivenessWatch {
  /** when it spoke last */
  #sinceMs: number;
  /** when it was last known to get something done */
  #busyAtMs: number;
  /** at the first look at this silence, and at the last one */
  #first: MainThread | undefined;
  #last: MainThread | undefined;

  constructor(nowMs: number) {
    this.#sinceMs = nowMs;
    this.#busyAtMs = nowMs;
  }

  /** It has spoken, or may have without being heard. */
  broken(nowMs: number): void {
    this.#sinceMs = nowMs;
    this.#busyAtMs = nowMs;
    this.#first = undefined;
    this.#last = undefined;
  }

  /** True when the worker is to be ended. `limitMs`: how long it may get nothing done; `look` is asked in long silences only. */
  isFinal(nowMs: number, limitMs: number, look: () => MainThread | undefined): boolean {
    if (nowMs - this.#sinceMs <= STOPPED_MS) return false;
    const main = look();
    if (main?.stopped) return true;
    this.#first ??= main;
    if (main && this.#last && main.processorMs > this.#last.processorMs) this.#busyAtMs = nowMs;
    this.#last = main;
    if (nowMs - this.#busyAtMs > limitMs) return true;
    return main !== undefined && main.processorMs - this.#first!.processorMs > ENDLESS_MS;
  }
}
