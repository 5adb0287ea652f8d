import { type Values, ValuesReader } from '../../redis/reply-parser.ts';
import type { RedisBatchMemory } from './memory.ts';

/**
 * Reads the reply with the pointers of one batch to the place in the memory where they are followed. Replies come one
 * after the other on a connection, so that one place is enough for all of them.
 */
export class PointersReader extends ValuesReader {
  readonly #memory: RedisBatchMemory;
  readonly #done: (values: Values) => void;

  /** `done` is called when they stand there; not for a reply that has no room there. */
  constructor(memory: RedisBatchMemory, done: (values: Values) => void) {
    super({ memory: memory.pointers });
    this.#memory = memory;
    this.#done = done;
  }

  override complete(): void {
    super.complete();
    const { values } = this;
    if (values.bytes.buffer === this.#memory.pointers.buffer) this.#done(values);
  }
}
