// A client of the hotel data API, without dependencies: Node 22.18 or newer (compiled: 20), Deno, Bun.

/** A hotel. Every field is always there. */
export interface Hotel {
  id: string;
  name: string;
  description: string | null;
  address: string | null;
  postal_code: string | null;
  city: string | null;
  country_code: string | null;
  latitude: number | null;
  longitude: number | null;
  language: string | null;
  star_rating: number | null;
  room_count: number | null;
  website_url: string | null;
  email: string | null;
  images: { url: string; caption: string | null }[];
  certified: boolean;
  certified_from: string | null;
  certified_until: string | null;
  certification_url: string | null;
  channel_id: string | null;
  registry_id: number | null;
}

/** A registry id. Strings and bigints keep their digits, numbers only up to 2^53-1. */
export type RegistryId = number | bigint | string;

export interface HotelApiOptions {
  /** the address before `/hotels` */
  url: string;
  key: string;
  /** attempts of a request, the first included; default 5 */
  maxAttempts?: number;
  /** of one attempt, its body included; default 30000 */
  timeoutMs?: number;
  /** a longer `Retry-After` is not waited for, but thrown; default 60000 */
  maxWaitMs?: number;
}

/** A copy of all hotels by id, and the token with which it goes on. Store both to go on later. */
export interface Mirror {
  hotels: Map<string, Hotel>;
  next?: string | undefined;
}

/** Changes in their order. A copy to which they are applied is right when `more` is false, and not before. */
export interface ChangePage {
  changes: { id: string; hotel: Hotel | null }[];
  next: string;
  more: boolean;
}

/** Thrown for a response that is no success. */
export class HotelApiError extends Error {
  readonly status: number;
  /** names the error, as the guide lists them; undefined: a gateway or the HTTP library of the service responded */
  readonly code: string | undefined;
  /** the id of a batch that the error is about */
  readonly id: unknown;
  /** the operator of the API finds a 5xx or slow response by it */
  readonly requestId: string | undefined;
  /** how long to wait before a retry, where the response says so */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, details: Omit<HotelApiError, keyof Error>) {
    super(message);
    this.name = 'HotelApiError';
    this.status = details.status;
    this.code = details.code;
    this.id = details.id;
    this.requestId = details.requestId;
    this.retryAfterMs = details.retryAfterMs;
  }
}

interface Answer {
  body: unknown;
  link: string;
}

type Check = (body: unknown) => boolean;

const MAX_BATCH = 1000;
const MAX_WAIT_S = 30;
const BATCHES_AT_ONCE = 4;
/** Longest wait before the second attempt; doubled before each further one. */
const BACKOFF_MS = 500;
/** What a later attempt may answer otherwise; 502 and 504 come from gateways. */
const RETRIED = [408, 429, 500, 502, 503, 504];

const isHotel: Check = (body) => typeof (body as Hotel | null)?.id === 'string';
const isList: Check = (body) => Array.isArray(body) && body.every(isHotel);
const isPage: Check = (body) => {
  const { changes, next, more } = (body ?? {}) as ChangePage;
  const isComplete = typeof next === 'string' && typeof more === 'boolean' && isList(changes);
  return isComplete && changes.every(({ id, hotel }) => hotel === null || hotel?.id === id);
};

export class HotelApi {
  readonly #options: Required<HotelApiOptions>;

  constructor(options: HotelApiOptions) {
    const defaults = { maxAttempts: 5, timeoutMs: 30_000, maxWaitMs: 60_000 };
    this.#options = { ...defaults, ...options, url: options.url.replace(/\/+$/, '') };
  }

  /** One hotel; undefined: there is none. */
  hotel(id: string): Promise<Hotel | undefined> {
    return this.#single(`/hotels/${encodeURIComponent(id)}`);
  }

  hotelByChannelId(channelId: string): Promise<Hotel | undefined> {
    return this.#single(`/hotels/channel/${encodeURIComponent(channelId)}`);
  }

  hotelByRegistryId(registryId: RegistryId): Promise<Hotel | undefined> {
    return this.#single(`/hotels/registry/${encodeURIComponent(String(registryId))}`);
  }

  /** All hotels, page by page, in the order of their ids. Changes meanwhile may hide or repeat some: see `mirror`. */
  async *hotels(): AsyncGenerator<Hotel> {
    let path: string | undefined = '/hotels?limit=100';
    while (path !== undefined) {
      const page: Answer = await this.#ask(path, {}, isList);
      yield* page.body as Hotel[];
      // the query and not the address: a gateway may have given the service another one
      const next: string | undefined = /<[^>]*(\?[^>]*)>; rel="next"/.exec(page.link)?.[1];
      path = next && `/hotels${next}`;
    }
  }

  /**
   * Copies all hotels, or brings a copy up to date; waits up to `waitS` seconds, at most half of the timeout, where nothing
   * has changed yet. After an error, call it with the same copy again: it goes on where it was. A copy without a token, or
   * with one that is too old, begins again, in another map that replaces the old one at the end.
   */
  async mirror(mirror: Mirror = { hotels: new Map() }, waitS = 0): Promise<Mirror> {
    let { hotels, next } = mirror;
    if (next === undefined) hotels = new Map();
    for (let more = true; more; ) {
      try {
        const page = await this.changes(next, waitS);
        for (const { id, hotel } of page.changes) {
          if (hotel) hotels.set(id, hotel);
          else hotels.delete(id);
        }
        ({ next, more } = page);
        if (!more || hotels === mirror.hotels || mirror.hotels.size === 0)
          Object.assign(mirror, { hotels, next });
      } catch (error) {
        const isExpired = error instanceof HotelApiError && error.code === 'token_expired';
        if (!isExpired || next === undefined) throw error;
        hotels = new Map();
        next = undefined;
      }
    }
    return mirror;
  }

  /** One page of changes behind a token, for a copy that is kept elsewhere; without a token the first page of all hotels. */
  async changes(after?: string, waitS = 0): Promise<ChangePage> {
    const wait = Math.floor(Math.min(waitS, MAX_WAIT_S, this.#options.timeoutMs / 2000));
    const query = `limit=1000&wait=${wait}${after === undefined ? '' : `&after=${encodeURIComponent(after)}`}`;
    return (await this.#ask(`/changes?${query}`, {}, isPage)).body as ChangePage;
  }

  /** However many hotels, in the order of the ids; ids without a hotel are left out. */
  hotelsByIds(ids: Iterable<string>): Promise<Hotel[]> {
    return this.#batches([...new Set(ids)], '/hotels/batch', 'ids');
  }

  hotelsByChannelIds(ids: Iterable<string>): Promise<Hotel[]> {
    return this.#batches([...new Set(ids)], '/hotels/channel/batch', 'channel_ids');
  }

  hotelsByRegistryIds(ids: Iterable<RegistryId>): Promise<Hotel[]> {
    return this.#batches([...new Set(Array.from(ids, String))], '/hotels/registry/batch', 'registry_ids');
  }

  async #batches(ids: string[], path: string, field: string): Promise<Hotel[]> {
    const found: Hotel[][] = [];
    let next = 0;
    const work = async () => {
      while (next < ids.length) {
        const start = next;
        next += MAX_BATCH;
        const batch = ids.slice(start, start + MAX_BATCH);
        const request = { method: 'POST', body: JSON.stringify({ [field]: batch }) };
        try {
          found[start / MAX_BATCH] = (await this.#ask(path, request, isList, batch)).body as Hotel[];
        } catch (error) {
          next = ids.length;
          throw error;
        }
      }
    };
    await Promise.all(Array.from({ length: BATCHES_AT_ONCE }, work));
    return found.flat();
  }

  async #single(path: string): Promise<Hotel | undefined> {
    try {
      return (await this.#ask(path, {}, isHotel)).body as Hotel;
    } catch (error) {
      // any other 404 means that the address is wrong, and says nothing about the hotel
      if (error instanceof HotelApiError && error.code === 'hotel_not_found') return undefined;
      throw error;
    }
  }

  /** Retries, because no request changes anything: after a random time up to the backoff, and no sooner than `Retry-After`. */
  async #ask(path: string, request: RequestInit, check: Check, ids?: unknown[]): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#try(path, request, check, ids);
      } catch (error) {
        const refused = error instanceof HotelApiError ? error : undefined;
        const backoffMs = BACKOFF_MS * 2 ** (attempt - 1) * Math.random();
        const waitMs = Math.max(refused?.retryAfterMs ?? 0, backoffMs);
        const isFinal = refused !== undefined && !RETRIED.includes(refused.status);
        if (isFinal || attempt >= this.#options.maxAttempts || waitMs > this.#options.maxWaitMs) throw error;
        await new Promise((resolve) => setTimeout(resolve, waitMs));
      }
    }
  }

  async #try(path: string, request: RequestInit, check: Check, ids?: unknown[]): Promise<Answer> {
    const response = await fetch(this.#options.url + path, {
      ...request,
      headers: { 'x-api-key': this.#options.key, 'content-type': 'application/json', ...request.headers },
      // a redirect would take the key elsewhere
      redirect: 'manual',
      signal: AbortSignal.timeout(this.#options.timeoutMs),
    });
    const { status, headers } = response;
    const body = parsed(await response.text());
    if (response.ok) {
      // cut short on the way, or of something else
      if (!check(body)) throw new Error(`The response to ${path} is not one of the hotel API`);
      return { body, link: headers.get('link') ?? '' };
    }
    const sentence = (body as { error?: unknown } | undefined)?.error;
    const code = headers.get('x-error-code') ?? undefined;
    const position = headers.get('x-error-position');
    const message = code === undefined ? 'not a response of the hotel API, check the address' : sentence;
    throw new HotelApiError(`${status} ${message}`, {
      status,
      code,
      id: position === null ? undefined : ids?.[Number(position)],
      requestId: headers.get('x-request-id') ?? undefined,
      retryAfterMs: retryAfterMs(headers),
    });
  }
}

/** The value of JSON; undefined for what is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** `Retry-After` is a number of seconds, or a date where a gateway sends it. */
function retryAfterMs(headers: Headers): number | undefined {
  const value = headers.get('retry-after') ?? '';
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const untilMs = Date.parse(value) - (Date.parse(headers.get('date') ?? '') || Date.now());
  return Number.isNaN(untilMs) ? undefined : Math.max(0, untilMs);
}
