/** Several breakers that are told of as one: when the first of them opens, and when the last closes. */
export class JointBreaker {
  readonly #onChange: (open: boolean, reason: string) => void;
  readonly #open = new Set<string>();

  constructor(onChange: (open: boolean, reason: string) => void) {
    this.#onChange = onChange;
  }

  /** The breaker of this name has opened or closed, or is no more. */
  changed(name: string, open: boolean, reason: string): void {
    const wasOpen = this.#open.size > 0;
    if (open) this.#open.add(name);
    else this.#open.delete(name);
    if (wasOpen !== this.#open.size > 0) this.#onChange(open, `${name}: ${reason}`);
  }
}
