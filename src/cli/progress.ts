import { SingleBar } from 'cli-progress';

const LINE_EVERY_MS = 5_000;

/** Progress of a long command on standard error: a bar on a terminal, else a plain line now and then. */
export class Progress {
  readonly #bar: SingleBar | undefined;
  readonly #total: number;
  readonly #doing: string;
  #lastLineAtMs = Date.now();

  /** `doing` stands before the bar, `format` writes the figures; `total` is what `at` counts up to. */
  constructor(doing: string, total: number, format: (value: number) => string) {
    this.#total = total;
    this.#doing = doing;
    if (!process.stderr.isTTY || total === 0) return;
    this.#bar = new SingleBar({
      format: `${doing} [{bar}] {percentage}% {value} of {total}, {eta_formatted} left`,
      formatValue: (value, _options, type) =>
        type === 'value' || type === 'total' ? format(value) : String(value),
      stream: process.stderr,
      clearOnComplete: true,
      hideCursor: true,
    });
    this.#bar.start(total, 0);
  }

  /** Shows how far it is. Cheap: may be called as often as one likes. */
  at(value: number): void {
    if (this.#bar) this.#bar.update(value);
    else if (Date.now() - this.#lastLineAtMs >= LINE_EVERY_MS) {
      this.#lastLineAtMs = Date.now();
      process.stderr.write(`${this.#doing}: ${Math.floor((100 * value) / this.#total)} %\n`);
    }
  }

  /** Writes a line that stays. */
  say(line: string): void {
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
    process.stderr.write(`${line}\n`);
  }

  /** Takes the bar away; to stop twice is no error. */
  stop(): void {
    this.#bar?.stop();
  }
}
