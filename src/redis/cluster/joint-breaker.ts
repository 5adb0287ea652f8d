/** Reports several circuit breakers as one: open with the first that opens, closed with the last that closes. */
export class JointBreaker {
  readonly #onChange: (open: boolean, reason: string) => void;
  readonly #open = new Set<string>();

  constructor(onChange: (open: boolean, reason: string) => void) {
    this.#onChange = onChange;
  }

  /** Records that the breaker of this name has opened, closed or been removed. */
  changed(name: string, open: boolean, reason: string): void {
    const wasOpen = this.#open.size > 0;
    if (open) this.#open.add(name);
    else this.#open.delete(name);
    if (wasOpen !== this.#open.size > 0) this.#onChange(open, `${name}: ${reason}`);
  }
}
