import { ABSENT, type CacheArena } from '../cache/arena/arena.ts';
import { publicErrors } from '../errors.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { compressNow, type Encoding, isWorthwhile, MIN_COMPRESSED_BYTES } from './compression.ts';
import type { Exchange } from './exchange.ts';
import { type HotelSources, loadHotels } from './hotel-sources.ts';

/** Marks a hotel whose JSON hardly shrinks. */
const NOT_WORTHWHILE = new Uint8Array(0);

/** Sends the hotel that has a key; an undefined key is one that no hotel can have. */
type SendHotel = (exchange: Exchange, namespace: Namespace, key: string | undefined) => void | Promise<void>;

export function singleHotels(sources: HotelSources): SendHotel {
  const { local, collections } = sources;

  const load = async (exchange: Exchange, namespace: Namespace, key: string) => {
    const [hotel] = await loadHotels(sources, exchange, namespace, [key]);
    if (!hotel) return exchange.fail(publicErrors.hotelNotFound);
    exchange.hotels = 1;
    const { encoding } = exchange;
    const [body, tag] = [hotel.body(exchange.principal!.view), hotel.tag(exchange.principal!.view)];
    const compressed = encoding && compressHotel(body, encoding);
    if (compressed) exchange.okEncoded(compressed, tag, encoding);
    else exchange.okEncoded(body, tag, undefined);
  };

  return (exchange, namespace, key) => {
    if (key === undefined) return exchange.fail(publicErrors.hotelNotFound);
    const { collection } = exchange.principal!;
    const members = collection === null ? undefined : collections.members(collection, exchange.nowMs);
    if (members && !members.has(namespace, key)) return exchange.fail(publicErrors.hotelNotFound);
    if (collection === null || members) {
      const ref = local.find(namespace, key, exchange.nowMs);
      if (ref > 0 && (!members || local.arena.isAmong(ref, members)))
        return sendCached(exchange, local.arena, ref);
      if (ref === ABSENT) return exchange.fail(publicErrors.hotelNotFound);
    }
    return load(exchange, namespace, key);
  };
}

/** Sends a hotel of the local cache in the encoding that the client prefers. */
function sendCached(exchange: Exchange, arena: CacheArena, ref: number): void {
  const { view } = exchange.principal!;
  exchange.hotels = 1;
  const tag = arena.tag(ref, view);
  const encoding = arena.bodyLength(ref, view) >= MIN_COMPRESSED_BYTES ? exchange.encoding : undefined;
  const held = encoding && arena.form(ref, view, encoding);
  if (held && held.length > 0) exchange.okEncoded(held, tag, encoding);
  else {
    const body = arena.body(ref, view);
    const form = encoding && !held ? compressHotel(body, encoding) : undefined;
    exchange.okEncoded(form ?? body, tag, form && encoding);
    if (encoding && !held) arena.offerForm(ref, view, encoding, form ?? NOT_WORTHWHILE);
  }
}

/** Compresses the JSON of a hotel; undefined if that does not pay. */
function compressHotel(body: Uint8Array, encoding: Encoding): Buffer | undefined {
  if (body.length < MIN_COMPRESSED_BYTES) return undefined;
  const compressed = compressNow(body, encoding, 'small');
  return isWorthwhile(compressed, body) ? compressed : undefined;
}
