import slotOf from 'cluster-key-slot';

const HEAD = Buffer.from('*2\r\n$4\r\nMGET\r\n');
const DOLLAR = 0x24;
const CR = 0x0d;

/** Keys of an MGET as it is sent: divides it into commands for the nodes of a cluster, without a string for each key. */
export class MgetKeys {
  readonly #command: Buffer;
  /** offsets of each key's length in the command; the last is the end of the command */
  readonly #starts: Uint32Array;
  /** slot of each key, 0 to 16383 */
  readonly slots: Uint16Array;

  /** Takes a command, which must not change, and the number of its keys. */
  constructor(command: Buffer, count: number) {
    this.#command = command;
    this.#starts = new Uint32Array(count + 1);
    this.slots = new Uint16Array(count);
    // behind the number of the words and the name of the command, which has a length too
    let at = command.indexOf(DOLLAR, command.indexOf(DOLLAR) + 1);
    for (let i = 0; i < count; i++) {
      this.#starts[i] = at;
      let length = 0;
      while (command[++at] !== CR) length = 10 * length + command[at]! - 0x30;
      const key = command.subarray(at + 2, at + 2 + length);
      this.slots[i] = slotOf(key);
      at += length + 4;
    }
    this.#starts[count] = at;
  }

  /**
   * Returns an MGET for each of these keys alone. Few keys of a batch share one of a cluster's slots, and an MGET of two keys
   * of a migrating slot is rejected.
   */
  commandsOf(places: readonly number[]): Buffer {
    let length = places.length * HEAD.length;
    for (const i of places) length += this.#starts[i + 1]! - this.#starts[i]!;
    const commands = Buffer.allocUnsafe(length);
    let at = 0;
    for (const i of places) {
      at += HEAD.copy(commands, at);
      at += this.#command.copy(commands, at, this.#starts[i]!, this.#starts[i + 1]!);
    }
    return commands;
  }
}
