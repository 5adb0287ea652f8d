const CR = 0x0d;
const STAR = 0x2a;
const DOLLAR = 0x24;
const MINUS = 0x2d;
/** Maximum length of the line before an array or a value: its type, ten digits, and the line's end. */
const HEAD_BYTES = 13;
/** Maximum length of the line of an error, which is logged. */
export const MAX_LINE_BYTES = 4_096;

const NONE = Buffer.alloc(0);

/** Values of an MGET in the order of the keys, in one buffer instead of an object each. */
export class Values {
  readonly bytes: Buffer;
  /** for each value its offset in `bytes` and its length, -1 for null */
  readonly places: Int32Array;

  constructor(bytes: Buffer, places: Int32Array) {
    this.bytes = bytes;
    this.places = places;
  }

  isNull(i: number): boolean {
    return this.places[2 * i + 1]! < 0;
  }

  /** Returns the offset of value i in `bytes`. */
  start(i: number): number {
    return this.places[2 * i]!;
  }

  /** Returns the offset behind its last byte. */
  end(i: number): number {
    return this.places[2 * i]! + this.places[2 * i + 1]!;
  }
}

/**
 * Finds the values of a reply and keeps it in one buffer. An error of Redis is thrown as a ReplyError when the reply is
 * complete. If the number of `replies` is given, each to a command for one key, an error counts as null and is recorded
 * in `errors`. A reply of another form, or with more or fewer values than keys, ends the connection. Format:
 * RESP2, redis.io/docs/latest/develop/reference/protocol-spec.
 */
export class ValuesReader {
  readonly #keys: number;
  readonly #memory: Buffer;
  /** the reply up to #end, unread from #at: a view of the first chunk, later a copy */
  #reply: Buffer = NONE;
  #at = 0;
  #end = 0;
  /** values still to come; -1 before the head */
  #missing = -1;
  #repliesToCome: number;
  readonly #throws: boolean;
  readonly #places: Int32Array;
  #found = 0;
  /** of the rejected keys */
  readonly errors: Error[] = [];

  /** `keys`: number of values of each reply. Keeps the replies in `memory` if they fit, else in memory of its own. */
  constructor({ keys, memory = NONE, replies }: { keys: number; memory?: Buffer; replies?: number }) {
    this.#keys = keys;
    this.#memory = memory;
    this.#places = new Int32Array(2 * keys * (replies ?? 1));
    this.#repliesToCome = replies ?? 1;
    this.#throws = replies === undefined;
  }

  /** Returns the bytes of a complete reply alone, whatever was expected or arrived behind it. */
  get values(): Values {
    return new Values(this.#reply.subarray(0, this.#at), this.#places.subarray(0, 2 * this.#found));
  }

  /**
   * Reads received bytes from an offset; they are valid until it returns. Returns the offset behind the reply, or -1
   * if more is to come. An error that it throws ends the connection.
   */
  take(chunk: Buffer, from: number): number {
    const before = this.#end;
    if (before === 0) {
      this.#reply = chunk.subarray(from);
      this.#end = this.#reply.length;
    } else this.#append(chunk, from);
    const isComplete = this.#read();
    if (before === 0) this.#keep(isComplete ? this.#at : this.#end);
    return isComplete ? from + this.#at - before : -1;
  }

  /**
   * Takes the values of several replies in place of one: the value of the i-th key of a part is that of key `at[i]`, and null is
   * the value of a key without a part.
   */
  use(parts: readonly { values: Values; at: readonly number[] }[]): void {
    const length = parts.reduce((sum, { values }) => sum + values.bytes.length, 0);
    this.#reply = this.#memoryFor(length);
    this.#places.fill(-1);
    this.#found = this.#keys;
    for (const { values, at } of parts)
      at.forEach((i, part) => {
        if (values.isNull(part)) return;
        const [start, end] = [values.start(part), values.end(part)];
        this.#places[2 * i] = this.#at;
        this.#places[2 * i + 1] = end - start;
        this.#at += values.bytes.copy(this.#reply, this.#at, start, end);
      });
  }

  /** Called immediately when the reply is complete; what it throws is the rejection of `sendMget`. */
  complete(): void {
    if (this.#throws && this.errors[0]) throw this.errors[0];
  }

  /** Reads the available bytes; returns true if the reply is complete. */
  #read(): boolean {
    while (this.#repliesToCome > 0) {
      if (this.#missing < 0 && !this.#takeHead()) return false;
      while (this.#missing > 0) if (!this.#takeValue()) return false;
      this.#missing = -1;
      this.#repliesToCome--;
    }
    return true;
  }

  /** Copies the reply from the first chunk, whose bytes are valid no longer. */
  #keep(length: number): void {
    const kept = this.#memoryFor(length);
    this.#reply.copy(kept, 0, 0, length);
    this.#reply = kept;
    this.#end = length;
  }

  #memoryFor(length: number): Buffer {
    return length <= this.#memory.length ? this.#memory : Buffer.allocUnsafeSlow(length);
  }

  #append(chunk: Buffer, from: number): void {
    const needed = this.#end + chunk.length - from;
    if (needed > this.#reply.length) {
      const grown = Buffer.allocUnsafeSlow(2 * needed);
      this.#reply.copy(grown, 0, 0, this.#end);
      this.#reply = grown;
    }
    chunk.copy(this.#reply, this.#end, from);
    this.#end = needed;
  }

  /** Reads the head of the reply; returns false if it is incomplete. An error is a reply of its own. */
  #takeHead(): boolean {
    if (this.#at >= this.#end) return false;
    const type = this.#reply[this.#at];
    if (type === MINUS) {
      const line = this.#reply.subarray(this.#at, Math.min(this.#end, this.#at + MAX_LINE_BYTES));
      const length = line.indexOf(CR);
      if (length < 0 && line.length === MAX_LINE_BYTES) throw new Error('Redis sent a line without an end');
      if (length < 0 || this.#at + length + 2 > this.#end) return false;
      const error = new Error(line.toString('utf8', 1, length));
      error.name = 'ReplyError';
      this.errors.push(error);
      this.#add(0, -1);
      this.#at += length + 2;
      this.#missing = 0;
      return true;
    }
    if (type !== STAR) throw new Error('Redis sent an unexpected reply to MGET');
    const count = this.#takeNumber();
    if (count === undefined) return false;
    if (count !== this.#keys) throw new Error('Redis sent another number of values than requested');
    this.#missing = count;
    return true;
  }

  #takeValue(): boolean {
    const start = this.#at;
    if (start >= this.#end) return false;
    if (this.#reply[start] !== DOLLAR) throw new Error('Redis sent an unexpected value');
    const length = this.#takeNumber();
    if (length === undefined) return false;
    if (length >= 0) {
      if (this.#at + length + 2 > this.#end) {
        this.#at = start;
        return false;
      }
      if (this.#reply[this.#at + length] !== CR) throw new Error('Redis sent a value of another length');
      this.#add(this.#at, length);
      this.#at += length + 2;
    } else if (length === -1) this.#add(0, -1);
    else throw new Error('Redis sent a value of negative length');
    this.#missing--;
    return true;
  }

  #add(start: number, length: number): void {
    const place = 2 * this.#found++;
    this.#places[place] = start;
    this.#places[place + 1] = length;
  }

  /**
   * Reads the number behind the type, past the line's end; returns undefined, and reads nothing, if it is incomplete.
   */
  #takeNumber(): number | undefined {
    const reply = this.#reply;
    const end = this.#end;
    let at = this.#at + 1;
    const negative = reply[at] === MINUS;
    if (negative) at++;
    let number = 0;
    for (; at < end && reply[at] !== CR; at++) {
      const digit = reply[at]! - 0x30;
      if (digit < 0 || digit > 9 || at - this.#at > HEAD_BYTES) throw new Error('Redis sent a wrong number');
      number = 10 * number + digit;
    }
    if (at + 2 > end) return undefined;
    this.#at = at + 2;
    return negative ? -number : number;
  }
}
