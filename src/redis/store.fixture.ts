import type { ValuesReader } from './reply-parser.ts';
import type { TimedValue } from './store.ts';

/** Store in memory, as far as hotels use it. */
export class FakeStore {
  readonly stored = new Map<string, Buffer>();
  readonly lifetimesMs = new Map<string, number>();
  /** called with the requested names before each reply; it is lost if this returns false */
  onRead: (names: string[]) => unknown = () => {};

  async sendMget(command: Buffer, _keys: number, reader: ValuesReader): Promise<true | undefined> {
    // a command is `*4 $4 MGET $1 a $1 b`, a word a line
    const names = `${command}`.split('\r\n').filter((_, i) => i > 2 && i % 2 === 0);
    if (this.onRead(names) === false) return undefined;
    const reply = replyOf(names.map((name) => this.stored.get(name)));
    reader.take(reply, 0);
    reader.complete();
    return true;
  }

  async setMany(values: TimedValue[]): Promise<void> {
    for (const [key, value, ttlMs] of values) {
      this.stored.set(key, Buffer.from(value));
      this.lifetimesMs.set(key, ttlMs);
    }
  }
}

/** Returns the reply to an MGET. */
export function replyOf(values: (Buffer | undefined | null)[]): Buffer {
  const parts = values.flatMap((value) =>
    value ? [Buffer.from(`$${value.length}\r\n`), value, Buffer.from('\r\n')] : [Buffer.from('$-1\r\n')],
  );
  return Buffer.concat([Buffer.from(`*${values.length}\r\n`), ...parts]);
}
