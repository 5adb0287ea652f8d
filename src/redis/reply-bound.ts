import type { Redis as Client } from 'ioredis';
import { MAX_LINE_BYTES } from './reply-parser.ts';

/** Bound of a reply that ioredis reads: INFO, the results of scripts, one value, a slot map of thousands of ranges. */
const MAX_REPLY_BYTES = 4 * 1024 * 1024;
/** What each item of an array counts beside its bytes. */
const ITEM_BYTES = 32;
/** A slot map nests four arrays. */
const MAX_DEPTH = 8;
const CR = 0x0d;
const TYPE = /^[-+:$*]/;
const LINE = /^(?:[-+].*|:-?\d{1,19}|([$*])(-1|\d{1,7}))$/s;

type Parse = (bytes: Buffer) => void;

/**
 * Replaces the connection of a client whose server sends anything but one reply of bounded size to each command. At a reply or
 * a push that no command awaits, ioredis throws outside of any handler. It allocates arrays as long as the server says.
 */
export function boundReplies(client: Client): void {
  client.on('connect', () => {
    const { stream } = client;
    const { commandQueue } = client as unknown as { commandQueue: { length: number } };
    // the parser of ioredis is the first listener
    const [parse] = stream.listeners('data') as [Parse];
    // ioredis keeps values, but the chunk may be a view
    const keep: Parse = (bytes) => parse(Buffer.from(bytes));
    const take = boundedParse(keep, () => commandQueue.length > 0);
    stream.off('data', parse);
    stream.prependListener('data', (chunk: Buffer) => {
      try {
        take(chunk);
      } catch (error) {
        stream.destroy(error as Error);
      }
    });
  });
  // of INFO, ioredis would split all lines, and ask again when the server says
  const info = client.info.bind(client) as () => Promise<string>;
  const readInfo = (done: (error: Error | null, reply?: string) => void) =>
    info().then((reply) => done(null, /^loading:1/m.test(reply) ? 'loading:1' : 'loading:0'), done);
  Object.assign(client, { info: readInfo });
}

/**
 * Passes replies of RESP2 on to a parser, and throws before a byte that breaks the bounds. Like ioredis, it does not read
 * the byte behind a carriage return, nor those behind a value.
 */
function boundedParse(parse: Parse, isAwaited: () => boolean): Parse {
  /** items to come of each open array */
  const open: number[] = [];
  /** declared by the reply so far */
  let bytes = 0;
  /** the line that has no end yet */
  let line = '';
  /** next byte to be read, perhaps in a later chunk */
  let at = 0;

  /** Takes a line up to its end; returns the number of bytes behind it that are not read. */
  function takeLine(): number {
    const read = LINE.exec(line);
    if (!read) throw new Error('Redis sent a wrong number');
    const type = read[1];
    const count = type ? Number(read[2]) : -1;
    bytes += line.length + Math.max(0, type === '*' ? count * ITEM_BYTES : count);
    line = '';
    if (type === '*' && count > 0) open.push(count);
    else while (open.length > 0 && --open[open.length - 1]! === 0) open.pop();
    if (bytes > MAX_REPLY_BYTES || open.length > MAX_DEPTH)
      throw new Error('Redis sent a reply that is too long');
    return type === '$' && count >= 0 ? count + 3 : 1;
  }

  return (chunk) => {
    let passed = 0;
    while (at < chunk.length) {
      if (open.length === 0 && line === '') {
        // the replies before this one leave the queue of commands
        parse(chunk.subarray(passed, at));
        passed = at;
        if (!isAwaited()) throw new Error('Redis sent an unrequested reply');
        bytes = 0;
      }
      const end = chunk.indexOf(CR, at);
      line += chunk.toString('latin1', at, end < 0 ? chunk.length : end);
      if (!TYPE.test(line)) throw new Error('Redis sent a reply that is not of RESP2');
      if (line.length > MAX_LINE_BYTES) throw new Error('Redis sent a line without an end');
      at = end < 0 ? chunk.length : end + 1 + takeLine();
    }
    parse(chunk.subarray(passed));
    at -= chunk.length;
  };
}
