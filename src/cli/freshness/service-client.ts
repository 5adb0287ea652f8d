import { once } from 'node:events';
import * as http from 'node:http';
import * as https from 'node:https';
import { text } from 'node:stream/consumers';
import { Failure } from '../../lib/failure.ts';
import type { Shown } from './database-state.ts';

/** Longer than any deadline of the service, which responds with 503 after it. */
const DEADLINE_MS = 30_000;

/** A page of `GET /changes`. */
interface Changes {
  changes: { id: string; hotel: object | null }[];
  next: string;
  more: boolean;
}

/** Client with one connection to the service, and so to one worker; requests are sequential. */
export class ServiceClient {
  readonly #url: URL;
  readonly #key: string;
  readonly #agent: http.Agent;

  constructor(baseUrl: string, key: string) {
    this.#url = new URL(baseUrl.endsWith('/') ? baseUrl : `${baseUrl}/`);
    this.#key = key;
    const options = { keepAlive: true, maxSockets: 1, timeout: 5_000 };
    this.#agent = this.#url.protocol === 'https:' ? new https.Agent(options) : new http.Agent(options);
  }

  /** Returns the state of a hotel in the response; undefined for 503. Throws a `Failure` for any other status. */
  async get(id: string): Promise<Shown | undefined> {
    const { status, headers } = await this.#request('HEAD', `hotels/${encodeURIComponent(id)}`);
    if (status === 200) return headers.etag?.replaceAll('"', '') ?? '';
    if (status === 404) return null;
    if (status === 503) return undefined;
    throw this.#unexpected(status);
  }

  /**
   * Waits up to a second for changes after a token. Returns 'expired' for 410, undefined for 503. Throws a `Failure`
   * for any other status.
   */
  async changesAfter(token: string): Promise<Changes | 'expired' | undefined> {
    const { status, body } = await this.#request('GET', `changes?limit=1000&wait=1&after=${token}`);
    if (status === 200) return JSON.parse(body);
    if (status === 410) return 'expired';
    if (status === 503) return undefined;
    throw this.#unexpected(status);
  }

  /** Sends a request. Throws a `Failure` if the response is not complete in time. */
  async #request(
    method: string,
    path: string,
  ): Promise<{ status: number | undefined; headers: http.IncomingHttpHeaders; body: string }> {
    const url = new URL(path, this.#url);
    const { request } = url.protocol === 'https:' ? https : http;
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const sent = request(url, {
      agent: this.#agent,
      method,
      headers: { 'x-api-key': this.#key, 'accept-encoding': 'identity' },
      signal,
    }).end();
    try {
      const [answer]: http.IncomingMessage[] = await once(sent, 'response');
      const { statusCode: status, headers } = answer!;
      return { status, headers, body: await text(answer!) };
    } catch (error) {
      const why = signal.aborted ? `no response within ${DEADLINE_MS / 1_000} s` : (error as Error).message;
      throw new Failure(`${url.origin}: ${why}`);
    }
  }

  #unexpected(status: number | undefined): Failure {
    const why = status === 401 ? ': is HOTEL_API_KEY a valid key of this deployment?' : '';
    return new Failure(`${this.#url.origin} responded with ${status}${why}`);
  }

  close(): void {
    this.#agent.destroy();
  }
}
