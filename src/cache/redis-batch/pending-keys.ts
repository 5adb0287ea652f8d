import { Entry, type Found } from '../../hotels/entry.ts';
import { EMPTY_ARRAY } from '../../hotels/json-array.ts';
import type { Namespace } from '../../hotels/namespace.ts';
import { GAP, NO_HOTEL, PENDING_BYTES } from '../../wasm/constants.ts';
import { PartialResponse } from '../partial-response.ts';

/** Keys of one batch between two steps: a table of src/wasm/assembly/redis-batch/pending-keys.ts. */
export class PendingKeys {
  readonly namespace: Namespace;
  readonly count: number;
  readonly table: Buffer;
  /** array of the known hotels. Its last bracket is not read. In a result, the entries instead */
  readonly known: Buffer;

  constructor(namespace: Namespace, count: number, table: Buffer, known: Buffer = EMPTY_ARRAY) {
    this.namespace = namespace;
    this.count = count;
    this.table = table;
    this.known = known;
  }

  /** Returns the known hotels with a gap for each key that Redis has not resolved. */
  partialResponse(): PartialResponse {
    const keys: string[] = [];
    const places: number[] = [];
    for (let i = 0; i < this.count; i++) {
      if (this.#word(i, 12) !== GAP) continue;
      keys.push(this.#key(i));
      places.push(this.#word(i, 16));
    }
    return new PartialResponse(Buffer.from(this.known), keys, places);
  }

  /** Returns the entries and absences that Redis has resolved, by key. */
  entries(): Map<string, Found> {
    const found = new Map<string, Found>();
    const source = Buffer.from(this.known);
    for (let i = 0; i < this.count; i++) {
      const state = this.#word(i, 12);
      if (state === GAP) continue;
      const start = this.#word(i, 16);
      // of its own bytes alone: the source has the hotels of other requests too
      const entry = state === NO_HOTEL ? null : new Entry(source.subarray(start, start + this.#word(i, 8)));
      found.set(this.#key(i), entry);
    }
    return found;
  }

  #key(i: number): string {
    const start = this.#word(i, 0);
    return this.table.toString('utf8', start, start + this.#word(i, 4));
  }

  #word(i: number, at: number): number {
    return this.table.readUInt32LE(i * PENDING_BYTES + at);
  }
}
