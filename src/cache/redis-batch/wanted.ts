const RECORD_BYTES = 16;
const GAP = 0xffffffff;

/** Keys of one batch between two steps: a table of src/wasm/assembly/redis-batch/wanted.ts. */
export class Wanted {
  readonly namespace: 'channel' | 'registry';
  readonly count: number;
  readonly table: Buffer;

  constructor(namespace: 'channel' | 'registry', count: number, table: Buffer) {
    this.namespace = namespace;
    this.count = count;
    this.table = table;
  }

  key(i: number): string {
    const start = this.table.readUInt32LE(i * RECORD_BYTES);
    return this.table.toString('utf8', start, start + this.table.readUInt32LE(i * RECORD_BYTES + 4));
  }

  /** Returns the keys that Redis has not resolved. */
  gaps(): string[] {
    const keys: string[] = [];
    for (let i = 0; i < this.count; i++) {
      if (this.table.readUInt32LE(i * RECORD_BYTES + 12) === GAP) keys.push(this.key(i));
    }
    return keys;
  }
}
