import { readFileSync } from 'node:fs';

/** Time without a report and without progress after which a worker counts as frozen. Workers report once a second. */
export const FROZEN_MS = 2_500;
/** Time after which a silent worker that the system reports as stopped is ended. */
export const STOPPED_MS = 1_500;
/** Time for a start: on a busy machine a worker does not report for seconds. */
export const START_MS = 12_500;
/** Processor time without a report after which a worker is ended: no request takes as long. */
export const ENDLESS_MS = 10_000;
/** Length of a tick of /proc: USER_HZ is 100 on every Linux. */
const MS_PER_TICK = 10;

/** State of the main thread of a process as the system reports it. */
export interface MainThread {
  /** stopped by a signal */
  stopped: boolean;
  /** processor time used so far */
  processorMs: number;
}

/** Reads the state; undefined if the system does not report it: not Linux, or the process has just ended. */
export function mainThreadOf(pid: number): MainThread | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8');
    // pid (name, which may contain anything) state ppid …
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return {
      stopped: fields[0] === 'T',
      processorMs: (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK,
    };
  } catch {
    return undefined;
  }
}

/** Distinguishes a busy worker that does not report from a frozen one. */
export class LivenessWatch {
  /** time of the last report */
  #sinceMs = 0;
  /** last time at which the worker was known to make progress */
  #busyAtMs = 0;
  /** state at the first check of this silence and at the last one */
  #first: MainThread | undefined;
  #last: MainThread | undefined;

  constructor(nowMs: number) {
    this.reset(nowMs);
  }

  /** Records a report, or that one may have been missed. */
  reset(nowMs: number): void {
    this.#sinceMs = nowMs;
    this.#busyAtMs = nowMs;
    this.#first = undefined;
    this.#last = undefined;
  }

  /**
   * Returns true if the worker must be ended. `limitMs`: maximum time without progress; `read` is called in long
   * silences only.
   */
  mustEnd(nowMs: number, limitMs: number, read: () => MainThread | undefined): boolean {
    if (nowMs - this.#sinceMs <= STOPPED_MS) return false;
    const main = read();
    if (main?.stopped) return true;
    this.#first ??= main;
    if (main && this.#last && main.processorMs > this.#last.processorMs) this.#busyAtMs = nowMs;
    this.#last = main;
    if (nowMs - this.#busyAtMs > limitMs) return true;
    return main !== undefined && main.processorMs - this.#first!.processorMs > ENDLESS_MS;
  }
}
