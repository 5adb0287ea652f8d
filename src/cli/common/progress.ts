import { printable } from './print.ts';

const DRAW_EVERY_MS = 100;
/** Returns to the beginning of the line of a terminal, and clears it. */
const CLEAR = '\r\x1b[K';

/** Formats a number of bytes, such as `38.1 MB`. */
export function bytes(value: number): string {
  return `${(value / 1e6).toFixed(1)} MB`;
}

/** Returns a formatter of counts, such as `25,000 hotels`. */
export function count(thing: string): (value: number) => string {
  return (value) => `${Math.round(value).toLocaleString('en')} ${thing}${value === 1 ? '' : 's'}`;
}

/** Progress of a long command: one line of standard error that changes, if that is a terminal. */
export class Progress {
  readonly #doing: string;
  readonly #format: (value: number) => string;
  readonly #total: number;
  #shownAtMs = -Infinity;

  /** Takes the label, the total of `at`, and the formatter of its values. */
  constructor(doing: string, total: number, format: (value: number) => string) {
    this.#doing = printable(doing);
    this.#total = total;
    this.#format = format;
  }

  /** Updates the value. Calls are cheap. */
  at(value: number): void {
    const { isTTY, columns } = process.stderr;
    const nowMs = performance.now();
    if (!isTTY || nowMs - this.#shownAtMs < DRAW_EVERY_MS) return;
    this.#shownAtMs = nowMs;
    const percent = Math.floor((100 * value) / Math.max(1, this.#total));
    const line = `${this.#doing}: ${percent} %, ${this.#format(value)} of ${this.#format(this.#total)}`;
    // a wrapped line could not be cleared
    process.stderr.write(`${CLEAR}${line.slice(0, (columns || Infinity) - 1)}`);
  }

  /** Writes a permanent line. */
  log(line: string): void {
    this.stop();
    process.stderr.write(`${printable(line)}\n`);
  }

  /** Removes the line that changes; may be called twice. */
  stop(): void {
    if (process.stderr.isTTY) process.stderr.write(CLEAR);
  }
}
