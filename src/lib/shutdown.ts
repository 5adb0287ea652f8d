import { withDeadline } from './deadline.ts';

/**
 * Releases resources in reverse order of their opening, once, each with a deadline. A release that fails or is late
 * does not stop the others.
 */
export class Shutdown {
  #releases: { name: string; release: () => unknown; deadlineMs: number }[] = [];
  #closing: Promise<string[]> | undefined;

  /** Registers the release of a resource that was just opened. */
  push(name: string, release: () => unknown, deadlineMs = 2_000): void {
    this.#releases.push({ name, release, deadlineMs });
  }

  /** Runs the releases, last first. Returns a message for each that failed or was late; a second call returns the same promise. */
  close(): Promise<string[]> {
    this.#closing ??= this.#run();
    return this.#closing;
  }

  async #run(): Promise<string[]> {
    const faults: string[] = [];
    for (let next = this.#releases.pop(); next; next = this.#releases.pop()) {
      const { name, release, deadlineMs } = next;
      try {
        await withDeadline(Promise.resolve(release()), deadlineMs);
      } catch (error) {
        faults.push(`${name}: ${error instanceof Error ? error.message : error}`);
      }
    }
    return faults;
  }
}
