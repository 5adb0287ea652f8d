import type { View } from '../../hotels/entry.ts';
import { EMPTY_ARRAY } from '../../hotels/json-array.ts';
import { type Namespace, NUMBER } from '../../hotels/namespace.ts';
import type { Redis } from '../../redis/client.ts';
import type { ReplyReader, Values } from '../../redis/reply-parser.ts';
import { makeSeed } from '../../wasm/load.ts';
import { writeKey } from '../arena/key-bytes.ts';
import type { CountLookups } from '../count-lookups.ts';
import { PartialResponse } from '../partial-response.ts';
import type { RedisHotelCache } from '../redis-hotel-cache.ts';
import { EntryStream } from './entry-stream.ts';
import { RedisBatchMemory } from './memory.ts';
import { PointersReader } from './pointers-reader.ts';
import { Wanted } from './wanted.ts';

/** What `askFor` returns for a body that it leaves to others. */
const NOT_READ = -1;
/** Changes are remembered for this long to twice as long: longer than any load takes. */
const MIDNIGHT_CHECK_MS = 30_000;

/** Is given the answer at once when it is there; its bytes hold until the call returns. */
export type Finish = (answer: Uint8Array | PartialResponse) => void | Promise<void>;

/**
 * Answers batches straight out of the replies of Redis, for a service without a local cache: a body becomes the MGET
 * of its pointers, these the MGET of the entries, these the answer, all of it in WebAssembly and without an object
 * for each hotel. Whatever is not plainly there and sound (a miss, a stale pointer, a damaged value, a hotel that
 * changed lately or at midnight) stays a gap, and the reader judges it.
 */
export class RedisBatchReader {
  readonly #redis: Redis;
  readonly #cache: RedisHotelCache;
  readonly #isFeedUp: () => boolean;
  readonly #count: CountLookups;
  readonly #memory = new RedisBatchMemory();
  readonly #refreshing: NodeJS.Timeout;

  /** While not `isLinked` Redis may be behind unheard: then nothing is answered here. */
  constructor(redis: Redis, redisCache: RedisHotelCache, isFeedUp: () => boolean, count: CountLookups) {
    this.#redis = redis;
    this.#cache = redisCache;
    this.#isFeedUp = isFeedUp;
    this.#count = count;
    const { wasm } = this.#memory;
    wasm.init(...makeSeed());
    this.#refreshing = setInterval(() => wasm.rotateChanges(), MIDNIGHT_CHECK_MS);
    this.#refreshing.unref();
  }

  close(): void {
    clearInterval(this.#refreshing);
  }

  /** Nothing that was heard of is true any more. */
  forgetChanges(): void {
    // the present table of changes and the one before it
    for (let turn = 0; turn < 2; turn++) this.#memory.wasm.rotateChanges();
  }

  /**
   * A change was heard of what a key names, `version` 0 where it carries none: for a while Redis is not believed where
   * it tells something older.
   */
  changed(namespace: Namespace, key: string, version: number): void {
    const { wasm, bytes } = this.#memory;
    const length = writeKey(bytes, key, wasm.INPUT.value);
    if (length > 0) wasm.note(NUMBER[namespace], length, version);
  }

  /**
   * Answers the body of a batch. Undefined: it asks for nothing plain, or Redis is not to be asked. Rejects with
   * what `finish` throws.
   */
  answer(
    namespace: 'channel' | 'registry',
    body: Uint8Array,
    view: View,
    finish: Finish,
  ): Promise<void> | undefined {
    const { wasm, bytes } = this.#memory;
    if (!this.#isFeedUp() || body.length > wasm.INPUT_BYTES.value) return undefined;
    bytes.set(body, wasm.INPUT.value);
    const prefixLength = this.#memory.writePrefix(this.#cache.prefixOf(namespace));
    const count = wasm.askFor(body.length, NUMBER[namespace], prefixLength);
    if (count === NOT_READ || count === 0) return undefined;
    const wanted = new Wanted(namespace, count, this.#memory.takeWanted());
    return this.#answer(wanted, this.#memory.takeCommand(), view, finish);
  }

  async #answer(wanted: Wanted, command: Buffer, view: View, finish: Finish): Promise<void> {
    let pointed: Pointed | undefined;
    const pointers = new PointersReader(this.#memory, (values) => {
      pointed = this.#point(wanted, values);
    });
    await this.#ask(command, wanted.count, pointers);
    if (!pointed) return finish(onlyGaps(wanted));

    const { absent } = pointed;
    if (pointed.named === 0) {
      this.#count('redis', 'absent', absent);
      return finish(onlyGaps(pointed.wanted));
    }
    let finished: Promise<void> | undefined;
    const stream = new EntryStream(this.#memory, pointed.wanted, view, (answer, hits) => {
      this.#count('redis', 'absent', absent);
      this.#count('redis', 'hit', hits);
      finished = finishNow(finish, answer);
    });
    const isAnswered = await this.#ask(pointed.command, pointed.named, stream);
    // of what was pointed, nothing came: the reader asks for all of it again, and counts it
    if (!isAnswered) return finish(onlyGaps(wanted));
    // only here: a reply that comes too late is read all the same
    for (const { table } of [wanted, pointed.wanted]) this.#memory.giveBack(table);
    return finished;
  }

  #ask(command: Buffer, keys: number, reader: ReplyReader): Promise<true | undefined> {
    return this.#redis.ask(command, keys, reader, () => this.#memory.giveBack(command));
  }

  /** Follows the pointers that stand in the memory. */
  #point({ namespace, count, table }: Wanted, { places }: Values): Pointed {
    const { wasm, bytes, words } = this.#memory;
    bytes.set(table, wasm.SCRATCH.value);
    words.set(places, wasm.PLACES.value / 4);
    const prefixLength = this.#memory.writePrefix(this.#cache.prefixOf('id'));
    const named = wasm.point(count, table.length, NUMBER[namespace], prefixLength);
    return {
      wanted: new Wanted(namespace, count, this.#memory.takeWanted()),
      named,
      absent: this.#memory.result(2),
      command: this.#memory.takeCommand(),
    };
  }
}

/** What the pointers of a batch came to. */
interface Pointed {
  wanted: Wanted;
  /** how many are named, whose entries `command` asks for */
  named: number;
  command: Buffer;
  /** how many nobody carries */
  absent: number;
}

/** What it throws is no fault of Redis. */
async function finishNow(finish: Finish, answer: Uint8Array | PartialResponse): Promise<void> {
  await finish(answer);
}

function onlyGaps(wanted: Wanted): PartialResponse {
  const keys = wanted.gaps();
  return new PartialResponse(EMPTY_ARRAY, keys, new Array(keys.length).fill(1));
}
