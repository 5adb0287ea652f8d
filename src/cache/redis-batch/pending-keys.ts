import { EMPTY_ARRAY } from '../../hotels/json-array.ts';
import type { Namespace } from '../../hotels/namespace.ts';
import { PartialResponse } from '../partial-response.ts';

const RECORD_BYTES = 20;
const GAP = 0xffffffff;

/** Keys of one batch between two steps: a table of src/wasm/assembly/redis-batch/pending-keys.ts. */
export class PendingKeys {
  readonly namespace: Namespace;
  readonly count: number;
  readonly table: Buffer;
  /** the array of the hotels that the local cache held; what stands in place of its last bracket is not read */
  readonly hits: Buffer;

  constructor(namespace: Namespace, count: number, table: Buffer, hits: Buffer = EMPTY_ARRAY) {
    this.namespace = namespace;
    this.count = count;
    this.table = table;
    this.hits = hits;
  }

  key(i: number): string {
    const start = this.table.readUInt32LE(i * RECORD_BYTES);
    return this.table.toString('utf8', start, start + this.table.readUInt32LE(i * RECORD_BYTES + 4));
  }

  /** Returns the hits with a gap for each key that Redis has not resolved. */
  partialResponse(): PartialResponse {
    const keys: string[] = [];
    const places: number[] = [];
    for (let i = 0; i < this.count; i++) {
      if (this.table.readUInt32LE(i * RECORD_BYTES + 12) !== GAP) continue;
      keys.push(this.key(i));
      places.push(this.table.readUInt32LE(i * RECORD_BYTES + 16));
    }
    // the space of the hits is released
    return new PartialResponse(Buffer.from(this.hits), keys, places);
  }
}
