// A typed client of the hotel data API, without dependencies: Node 20 or newer, Deno, Bun.
// The types are generated: npx openapi-typescript "$HOTEL_API_URL/openapi.json" -o openapi.d.ts
import type { components } from './openapi.d.ts';

export type Hotel = components['schemas']['Hotel'];

const MAX_BATCH = 1000;
const BATCHES_AT_ONCE = 4;
const MAX_CACHED = 10_000;

/** Thrown for what the service refuses; `requestId` is what its operator will want to know. */
export class HotelApiError extends Error {
  readonly status: number;
  readonly requestId: string | null;

  constructor(status: number, sentence: string, requestId: string | null) {
    super(`${status} ${sentence}`);
    this.status = status;
    this.requestId = requestId;
  }
}

export class HotelApi {
  readonly #url: string;
  readonly #key: string;
  readonly #maxAttempts: number;
  /** what was answered last, by path: sent again only when it has changed */
  readonly #cache = new Map<string, { etag: string; body: unknown; link: string | null }>();

  constructor(options: { url: string; key: string; maxAttempts?: number }) {
    this.#url = options.url.replace(/\/$/, '');
    this.#key = options.key;
    this.#maxAttempts = options.maxAttempts ?? 6;
  }

  /** One hotel; undefined: there is none. */
  hotel(id: string): Promise<Hotel | undefined> {
    return this.#single(`/hotels/${encodeURIComponent(id)}`);
  }

  hotelByChannelId(channelId: string): Promise<Hotel | undefined> {
    return this.#single(`/hotels/channel/${encodeURIComponent(channelId)}`);
  }

  hotelByRegistryId(registryId: number): Promise<Hotel | undefined> {
    return this.#single(`/hotels/registry/${registryId}`);
  }

  /** All hotels, page by page, in the order of their ids. */
  async *hotels(): AsyncGenerator<Hotel> {
    let path: string | undefined = '/hotels?limit=100';
    while (path !== undefined) {
      const page: { body: unknown; link: string | null } = await this.#get(path);
      yield* page.body as Hotel[];
      const next: string | undefined = /<([^>]*)>; rel="next"/.exec(page.link ?? '')?.[1];
      path = next?.slice(next.lastIndexOf('/hotels?'));
    }
  }

  /** However many hotels, in the order asked; ids that no hotel carries are left out. */
  hotelsByChannelIds(ids: Iterable<string>): Promise<Hotel[]> {
    return this.#batches([...new Set(ids)], '/hotels/channel/batch', 'channel_ids');
  }

  hotelsByRegistryIds(ids: Iterable<number>): Promise<Hotel[]> {
    return this.#batches([...new Set(ids)], '/hotels/registry/batch', 'registry_ids');
  }

  async #batches(ids: unknown[], path: string, field: string): Promise<Hotel[]> {
    const bodies: string[] = [];
    for (let start = 0; start < ids.length; start += MAX_BATCH)
      bodies.push(JSON.stringify({ [field]: ids.slice(start, start + MAX_BATCH) }));
    const found: Hotel[][] = [];
    let next = 0;
    const work = async () => {
      while (next < bodies.length) {
        const at = next++;
        const answer = await this.#ask(path, { method: 'POST', body: bodies[at] });
        found[at] = (await answer.json()) as Hotel[];
      }
    };
    await Promise.all(Array.from({ length: BATCHES_AT_ONCE }, work));
    return found.flat();
  }

  async #single(path: string): Promise<Hotel | undefined> {
    try {
      return (await this.#get(path)).body as Hotel;
    } catch (error) {
      if (error instanceof HotelApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  async #get(path: string): Promise<{ body: unknown; link: string | null }> {
    const known = this.#cache.get(path);
    const answer = await this.#ask(path, { headers: known ? { 'if-none-match': known.etag } : {} });
    if (known && answer.status === 304) return known;
    const fresh = {
      etag: answer.headers.get('etag') ?? '',
      body: await answer.json(),
      link: answer.headers.get('link'),
    };
    this.#cache.delete(path);
    this.#cache.set(path, fresh);
    const [oldest] = this.#cache.keys();
    if (this.#cache.size > MAX_CACHED && oldest !== undefined) this.#cache.delete(oldest);
    return fresh;
  }

  /** Asks again, for nothing is ever changed by asking: after 429 and 503 when the service says, else a little later. */
  async #ask(path: string, request: RequestInit): Promise<Response> {
    const headers = { 'x-api-key': this.#key, 'content-type': 'application/json', ...request.headers };
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt === this.#maxAttempts;
      const backoffMs = 2 ** attempt * 50 * (1 + Math.random());
      try {
        const answer = await fetch(this.#url + path, {
          ...request,
          headers,
          signal: AbortSignal.timeout(30_000),
        });
        if (answer.ok || answer.status === 304) return answer;
        const { error } = (await answer.json()) as components['schemas']['ErrorResponse'];
        if (isLast || ![429, 500, 503].includes(answer.status))
          throw new HotelApiError(answer.status, error, answer.headers.get('x-request-id'));
        await sleep(Number(answer.headers.get('retry-after')) * 1000 || backoffMs);
      } catch (error) {
        if (isLast || error instanceof HotelApiError) throw error;
        await sleep(backoffMs);
      }
    }
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
