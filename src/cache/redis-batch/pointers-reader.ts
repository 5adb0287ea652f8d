import { type Values, ValuesReader } from '../../redis/reply-parser.ts';
import type { CacheMemory } from '../memory.ts';

/**
 * Reads the reply with the pointers of one batch into the shared memory. Replies on a connection arrive one after the
 * other, so all of them share one place.
 */
export class PointersReader extends ValuesReader {
  readonly #memory: CacheMemory;
  readonly #done: (values: Values) => void;

  /**
   * Takes the number of requested pointers. `done` is called when the pointers are there; it is not called for a reply
   * that is too long.
   */
  constructor(memory: CacheMemory, keys: number, done: (values: Values) => void) {
    super({ keys, memory: memory.pointers });
    this.#memory = memory;
    this.#done = done;
  }

  override complete(): void {
    super.complete();
    const { values } = this;
    if (values.bytes.buffer === this.#memory.pointers.buffer) this.#done(values);
  }
}
