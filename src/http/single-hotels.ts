import { ABSENT } from '../cache/arena/arena.ts';
import { publicErrors } from '../errors.ts';
import type { Namespace } from '../hotels/namespace.ts';
import {
  compress,
  compressNow,
  type Encoding,
  isWorthwhile,
  MIN_COMPRESSED_BYTES,
  mayCompress,
} from './compression.ts';
import type { Exchange } from './exchange.ts';
import { type HotelSources, loadHotels } from './hotel-sources.ts';

/** Maximum size of hotels that are compressed at once, in up to 60 µs; larger ones wait for a turn of the event loop. */
const MAX_AT_ONCE_BYTES = 2_048;
/** Marks a hotel whose JSON hardly shrinks. */
const NOT_WORTHWHILE = new Uint8Array(0);

/** Sends the hotel that has a key; an undefined key is one that no hotel can have. */
type SendHotel = (exchange: Exchange, namespace: Namespace, key: string | undefined) => void | Promise<void>;

export function singleHotels(sources: HotelSources): SendHotel {
  const { local, collections, eventLoop, access } = sources;

  /** Compresses a large hotel when it is the turn of its key, and sends it. */
  const sendInTurn = (
    exchange: Exchange,
    body: Uint8Array,
    tag: string,
    encoding: Encoding,
    keep?: (form: Uint8Array) => void,
  ) => {
    if (exchange.isKnown(tag)) return exchange.okEncoded(body, tag, encoding);
    if (!mayCompress(body.length)) return exchange.okEncoded(body, tag, undefined);
    const { view } = exchange.principal!;
    exchange.sendCompressed(compress(body, encoding, exchange, eventLoop), (form) => {
      if (access.mayAnswerNow(exchange, false) === false) return;
      if (exchange.principal!.view !== view) return exchange.fail(publicErrors.unavailable);
      exchange.okEncoded(form, tag, encoding);
      keep?.(form);
    });
  };

  const load = async (exchange: Exchange, namespace: Namespace, key: string) => {
    const found = await loadHotels(sources, exchange, namespace, [key]);
    if (!found) return;
    const [hotel] = found;
    if (!hotel) return exchange.fail(publicErrors.hotelNotFound);
    exchange.hotels = 1;
    const { encoding } = exchange;
    const [body, tag] = [hotel.body(exchange.principal!.view), hotel.tag(exchange.principal!.view)];
    if (encoding && body.length > MAX_AT_ONCE_BYTES) return sendInTurn(exchange, body, tag, encoding);
    const compressed = encoding && compressHotel(body, encoding);
    if (compressed) exchange.okEncoded(compressed, tag, encoding);
    else exchange.okEncoded(body, tag, undefined);
  };

  /** Sends a hotel of the local cache in the encoding that the client prefers. */
  const sendCached = (exchange: Exchange, namespace: Namespace, key: string, ref: number) => {
    const { arena } = local;
    const { view } = exchange.principal!;
    exchange.hotels = 1;
    const tag = arena.tag(ref, view);
    const length = arena.bodyLength(ref, view);
    const encoding = length >= MIN_COMPRESSED_BYTES ? exchange.encoding : undefined;
    const held = encoding && arena.form(ref, view, encoding);
    if (held && held.length > 0) return exchange.okEncoded(held, tag, encoding);
    const body = arena.body(ref, view);
    if (!encoding || held) return exchange.okEncoded(body, tag, undefined);
    if (length > MAX_AT_ONCE_BYTES) {
      const ofBody = String(tag);
      return sendInTurn(exchange, body, ofBody, encoding, (form) => {
        const now = arena.find(namespace, key, exchange.nowMs);
        if (now > 0 && String(arena.tag(now, view)) === ofBody) arena.offerForm(now, view, encoding, form);
      });
    }
    const form = compressHotel(body, encoding);
    exchange.okEncoded(form ?? body, tag, form && encoding);
    arena.offerForm(ref, view, encoding, form ?? NOT_WORTHWHILE);
  };

  return (exchange, namespace, key) => {
    if (key === undefined) return exchange.fail(publicErrors.hotelNotFound);
    const { collection } = exchange.principal!;
    const members = collection === null ? undefined : collections.members(collection, exchange.nowMs);
    if (members && !members.has(namespace, key)) return exchange.fail(publicErrors.hotelNotFound);
    if (collection === null || members) {
      const ref = local.find(namespace, key, exchange.nowMs);
      if (ref > 0 && (!members || local.arena.isAmong(ref, members)))
        return sendCached(exchange, namespace, key, ref);
      if (ref === ABSENT) return exchange.fail(publicErrors.hotelNotFound);
    }
    return load(exchange, namespace, key);
  };
}

/** Compresses the JSON of a hotel; undefined if that does not pay. */
function compressHotel(body: Uint8Array, encoding: Encoding): Buffer | undefined {
  if (body.length < MIN_COMPRESSED_BYTES) return undefined;
  const compressed = compressNow(body, encoding, 'small');
  return isWorthwhile(compressed, body) ? compressed : undefined;
}
