import { seesAlike } from '../auth/principal.ts';
import { publicErrors } from '../errors.ts';
import type { Encoding } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { ABSENT } from '../wasm/constants.ts';
import { compressNow, inTurn, MIN_COMPRESSED_BYTES, mayCompress } from './compression.ts';
import type { Exchange } from './exchange.ts';
import type { HotelSources } from './misses.ts';

/** Maximum size of hotels that are compressed at once, in up to 60 µs; larger ones wait for a turn of the API key. */
const MAX_AT_ONCE_BYTES = 2_048;
/** Maximum share of the size of a hotel at which its compressed form is used. */
const COMPRESSED_SHARE = 0.9;
/** Marks a hotel whose JSON hardly shrinks. */
const NOT_WORTHWHILE = new Uint8Array(0);

/** Whether the turn of a hotel that had to wait has come in time for its compression; undefined: it has not waited. */
type Turn = 'now' | 'late' | undefined;

/** Sends the hotel that has a key; an undefined key is one that no hotel can have. */
type SendHotel = (exchange: Exchange, namespace: Namespace, key: string | undefined) => void | Promise<void>;

/** Returns what sends single hotels from these sources. */
export function singleHotels(sources: HotelSources): SendHotel {
  const { local, misses, collections, eventLoop, access } = sources;

  /** Answers when it is the turn of the API key, if that may still read the hotel. */
  const whenItsTurn = (
    exchange: Exchange,
    namespace: Namespace,
    key: string,
    bytes: number,
    answer: (turn: Turn) => void | Promise<void>,
  ): void | Promise<void> => {
    if (!mayCompress(bytes, exchange.owner)) return answer('late');
    const before = exchange.principal!;
    return inTurn(bytes, exchange, eventLoop, (isLate) => {
      if (exchange.over) return;
      const may = access.mayAnswerNow(exchange);
      if (may === false) return;
      if (may && seesAlike(exchange.principal!, before)) return answer(isLate ? 'late' : 'now');
      return access
        .mayStillAnswer(exchange)
        .then((still) => (still ? send(exchange, namespace, key, 'late') : undefined));
    });
  };

  const load = async (exchange: Exchange, namespace: Namespace, key: string, turn: Turn) => {
    const found = await misses.load(exchange, namespace, [key]);
    if (!found) return;
    const [hotel] = found;
    if (!hotel) return exchange.fail(publicErrors.hotelNotFound);
    exchange.hotels = 1;
    const { view } = exchange.principal!;
    const [body, tag] = [hotel.body(view), hotel.tag(view)];
    const encoding = body.length >= MIN_COMPRESSED_BYTES ? exchange.encoding : undefined;
    const answer = (at: Turn) => {
      const form = encoding && at !== 'late' ? compressHotel(body, encoding) : undefined;
      exchange.okEncoded(form ?? body, tag, form && encoding);
    };
    if (!encoding || turn) return answer(turn);
    if (exchange.isKnown(tag)) return exchange.okEncoded(body, tag, encoding);
    const mayStillSee = () => {
      const { collection } = exchange.principal!;
      return collection === null || collections.members(collection)?.has('id', hotel.id);
    };
    // also a small one: thousands of requests may have waited for the same hotel
    return whenItsTurn(exchange, namespace, key, body.length, (at) =>
      at === 'now' && mayStillSee() ? answer(at) : send(exchange, namespace, key, 'late'),
    );
  };

  /** Sends a hotel of the local cache in the encoding that the client prefers. */
  const sendCached = (exchange: Exchange, namespace: Namespace, key: string, ref: number, turn: Turn) => {
    const { arena } = local;
    const { view } = exchange.principal!;
    exchange.hotels = 1;
    const tag = arena.tag(ref, view);
    const length = arena.bodyLength(ref, view);
    const encoding = length >= MIN_COMPRESSED_BYTES ? exchange.encoding : undefined;
    const held = encoding && arena.form(ref, view, encoding);
    if (held && held.length > 0) return exchange.okEncoded(held, tag, encoding);
    const body = arena.body(ref, view);
    if (encoding && !held && (isLarge(length) || eventLoop.isUsedUp(exchange.nowMs))) {
      if (exchange.isKnown(tag)) return exchange.okEncoded(body, tag, encoding);
      // what waits holds nothing: the hotel is looked up again
      if (!turn)
        return whenItsTurn(exchange, namespace, key, length, (at) => send(exchange, namespace, key, at));
    }
    const mayShrink = encoding && !held && turn !== 'late';
    const form = mayShrink ? compressHotel(body, encoding) : undefined;
    exchange.okEncoded(form ?? body, tag, form && encoding);
    if (mayShrink) arena.putForm(ref, view, encoding, form ?? NOT_WORTHWHILE);
  };

  const send = (exchange: Exchange, namespace: Namespace, key: string, turn?: Turn): void | Promise<void> => {
    const { collection } = exchange.principal!;
    const members = collection === null ? undefined : collections.members(collection, exchange.nowMs);
    if (members && !members.has(namespace, key)) return exchange.fail(publicErrors.hotelNotFound);
    if (collection === null || members) {
      const ref = local.find(namespace, key, exchange.nowMs);
      if (ref > 0 && (!members || local.arena.isAmong(ref, members)))
        return sendCached(exchange, namespace, key, ref, turn);
      if (ref === ABSENT) return exchange.fail(publicErrors.hotelNotFound);
    }
    return load(exchange, namespace, key, turn);
  };

  return (exchange, namespace, key) =>
    key === undefined ? exchange.fail(publicErrors.hotelNotFound) : send(exchange, namespace, key);
}

function isLarge(bytes: number): boolean {
  return bytes > MAX_AT_ONCE_BYTES;
}

/** Compresses the JSON of a hotel; undefined if that does not pay. */
function compressHotel(body: Uint8Array, encoding: Encoding): Buffer | undefined {
  const compressed = compressNow(body, encoding, isLarge(body.length) ? 'quick' : 'small');
  return compressed.length <= COMPRESSED_SHARE * body.length ? compressed : undefined;
}
