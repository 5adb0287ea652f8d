import * as http from 'node:http';
import * as https from 'node:https';
import { Failure } from '../../lib/failure.ts';
import type { Shown } from './database-state.ts';

const DEADLINE_MS = 5_000;

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
    const url = new URL(`hotels/${encodeURIComponent(id)}`, this.#url);
    const { request } = url.protocol === 'https:' ? https : http;
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
    request(url, {
      agent: this.#agent,
      method: 'HEAD',
      headers: { 'x-api-key': this.#key, 'accept-encoding': 'identity' },
      signal: AbortSignal.timeout(DEADLINE_MS),
    })
      .on('response', resolve)
      .on('error', (error) => reject(new Failure(`${url.origin}: ${error.message}`)))
      .end();
    const answer = await promise;
    answer.resume();
    const { statusCode: status, headers } = answer;
    if (status === 200) return headers.etag?.replaceAll('"', '') ?? '';
    if (status === 404) return null;
    if (status === 503) return undefined;
    throw new Failure(
      `${url.origin} responded with ${status}${status === 401 ? ': is HOTEL_API_KEY a valid key of this deployment?' : ''}`,
    );
  }

  close(): void {
    this.#agent.destroy();
  }
}
