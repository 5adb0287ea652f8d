import { styleText } from 'node:util';
import { printable } from './printable.ts';

const LINE_EVERY_MS = 5_000;
const DRAW_EVERY_MS = 100;
const BAR_CHARACTERS = 24;
/** Returns to the beginning of the line of a terminal, and clears it. */
const CLEAR = '\r\x1b[K';

/** Formats a number of bytes, such as `38.1 MB`. */
export function bytes(value: number): string {
  return value < 1e9 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e9).toFixed(2)} GB`;
}

/** Returns a formatter of counts, such as `25,000 hotels`. */
export function count(thing: string): (value: number) => string {
  return (value) => `${Math.round(value).toLocaleString('en')} ${thing}${value === 1 ? '' : 's'}`;
}

/** Progress of a long command on standard error: a bar on a terminal, else a line every five seconds. */
export class Progress {
  readonly #doing: string;
  readonly #format: (value: number) => string;
  readonly #total: number;
  #startedAtMs: number | undefined;
  #value = 0;
  #shownAtMs = -Infinity;
  #isDrawn = false;

  /** Takes the label, the total of `at`, and the formatter of its values. */
  constructor(doing: string, total: number, format: (value: number) => string) {
    this.#doing = printable(doing);
    this.#total = total;
    this.#format = format;
  }

  /** Updates the value; the first call sets the start. Calls are cheap. */
  at(value: number): void {
    const nowMs = performance.now();
    this.#value = value;
    const { isTTY } = process.stderr;
    if (this.#startedAtMs === undefined) {
      this.#startedAtMs = nowMs;
      if (!isTTY) this.#shownAtMs = nowMs;
    }
    if (nowMs - this.#shownAtMs < (isTTY ? DRAW_EVERY_MS : LINE_EVERY_MS)) return;
    this.#shownAtMs = nowMs;
    if (!isTTY) process.stderr.write(`${this.#doing}: ${this.#facts().join(', ')}\n`);
    else if (this.#total > 0) this.#draw();
  }

  /** Writes a permanent line. */
  log(line: string): void {
    this.stop();
    process.stderr.write(`${printable(line)}\n`);
  }

  /** Removes the bar; may be called twice. */
  stop(): void {
    if (this.#isDrawn) process.stderr.write(CLEAR);
    this.#isDrawn = false;
  }

  #draw(): void {
    const bar = '━'.repeat(Math.round(Math.min(1, this.#value / this.#total) * BAR_CHARACTERS));
    const colored = styleText('cyan', bar.padEnd(BAR_CHARACTERS), { stream: process.stderr });
    // a wrapped line could not be cleared
    const columns = process.stderr.columns || Infinity;
    const facts = this.#facts()
      .join(' · ')
      .slice(0, columns - this.#doing.length - BAR_CHARACTERS - 3);
    process.stderr.write(`${CLEAR}${this.#doing} ${colored} ${facts}`);
    this.#isDrawn = true;
  }

  #facts(): string[] {
    const seconds = (performance.now() - this.#startedAtMs!) / 1000;
    const rate = this.#value / seconds;
    const left = (this.#total - this.#value) / rate;
    const total = this.#format(this.#total);
    const unit = total.slice(total.lastIndexOf(' '));
    const value = this.#format(this.#value);
    return [
      `${Math.floor((100 * this.#value) / Math.max(1, this.#total))} %`,
      `${value.endsWith(unit) ? value.slice(0, -unit.length) : value} of ${total}`,
      // the rate of the first second is meaningless
      ...(seconds >= 1 && rate > 0 ? [`${this.#format(rate)}/s`, `${duration(left)} left`] : []),
    ];
  }
}

function duration(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
