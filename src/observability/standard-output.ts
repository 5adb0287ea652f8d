import { writeSync } from 'node:fs';

const FD = 1;
/** Maximum number of bytes waiting for the reader. Further lines are dropped. */
const MAX_WAITING_BYTES = 1024 ** 2;
const RETRY_MS = 50;
/** Maximum time that an exiting process waits for the reader of its last lines, and the interval of its checks. */
const AT_EXIT_MS = 1_000;
const CHECK_AT_EXIT_MS = 5;

/**
 * Writes log lines to standard output. A line is written before `write` returns, so that it survives any end of the
 * process. If the reader of the pipe is slow, lines wait up to a bound and the process continues.
 */
export class StandardOutput {
  /** called with the number of dropped lines when there is room again */
  onDropped: ((lines: number) => void) | undefined;
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #dropped = 0;
  #retryTimer: NodeJS.Timeout | undefined;
  #readerGone = false;

  constructor() {
    // libuv makes a pipe non-blocking when Node opens it
    void process.stdout;
    process.on('exit', () => this.#finish());
  }

  write(line: string): void {
    if (this.#readerGone) return;
    const bytes = Buffer.from(line);
    if (this.#waitingBytes + bytes.length > MAX_WAITING_BYTES) {
      this.#dropped++;
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (!this.#retryTimer) this.#writeOut();
  }

  /** Writes waiting lines as far as there is room. */
  #writeOut(): void {
    try {
      for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
        const written = writeSync(FD, first);
        this.#waitingBytes -= written;
        if (written < first.length) this.#waiting[0] = first.subarray(written);
        else this.#waiting.shift();
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EPIPE') {
        this.#readerGone = true;
        this.#waiting.length = 0;
      } else {
        // there is no room in the pipe or on the disk
        this.#retryTimer = setTimeout(() => this.#retry(), RETRY_MS).unref();
      }
      return;
    }
    const dropped = this.#dropped;
    this.#dropped = 0;
    if (dropped > 0) this.onDropped?.(dropped);
  }

  #retry(): void {
    this.#retryTimer = undefined;
    this.#writeOut();
  }

  #finish(): void {
    const untilMs = performance.now() + AT_EXIT_MS;
    const pause = new Int32Array(new SharedArrayBuffer(4));
    while (this.#waiting.length > 0 && performance.now() < untilMs) {
      Atomics.wait(pause, 0, 0, CHECK_AT_EXIT_MS);
      this.#retry();
    }
  }
}
