import { styleText } from 'node:util';
import { type GenericFormatter, SingleBar } from 'cli-progress';
import { printable } from './printable.ts';

const LINE_EVERY_MS = 5_000;
const BAR_CHARACTERS = 24;

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
  #bar: SingleBar | undefined;
  #startedAtMs: number | undefined;
  #first = 0;
  #value = 0;
  #lastLineAtMs = 0;

  /** Takes the label, the total of `at`, and the formatter of its values. */
  constructor(doing: string, total: number, format: (value: number) => string) {
    this.#doing = printable(doing);
    this.#total = total;
    this.#format = format;
  }

  /** Updates the value; the first call sets the start. Calls are cheap. */
  at(value: number): void {
    this.#value = value;
    if (this.#startedAtMs === undefined) this.#begin(value);
    if (this.#bar) this.#bar.update(value);
    else if (performance.now() - this.#lastLineAtMs >= LINE_EVERY_MS) {
      this.#lastLineAtMs = performance.now();
      process.stderr.write(`${this.#doing}: ${this.#facts().join(', ')}\n`);
    }
  }

  /** Writes a permanent line. */
  log(line: string): void {
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
    process.stderr.write(`${printable(line)}\n`);
  }

  /** Removes the bar; may be called twice. */
  stop(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }

  #begin(first: number): void {
    this.#startedAtMs = performance.now();
    this.#lastLineAtMs = this.#startedAtMs;
    this.#first = first;
    if (!process.stderr.isTTY || this.#total === 0) return;
    const format: GenericFormatter = (_options, { progress }) => {
      const done = Math.round(Math.min(1, progress) * BAR_CHARACTERS);
      const bar = `${'━'.repeat(done)}${' '.repeat(BAR_CHARACTERS - done)}`;
      return `${this.#doing} ${styleText('cyan', bar, { stream: process.stderr })} ${this.#facts().join(' · ')}`;
    };
    this.#bar = new SingleBar({
      format,
      stream: process.stderr,
      clearOnComplete: true,
      hideCursor: true,
      // its handler would consume the first Ctrl-C
      gracefulExit: false,
    });
    this.#bar.start(this.#total, first);
  }

  #facts(): string[] {
    const seconds = (performance.now() - this.#startedAtMs!) / 1000;
    const rate = (this.#value - this.#first) / seconds;
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
