import { Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';

export interface HttpResponse {
  status: number;
  headers: IncomingHttpHeaders;
  /** as received, possibly compressed */
  body: Buffer;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
  json(): any;
}

export interface RequestOptions {
  /** a key of the service, none, or this text */
  key?: 'full' | 'narrow' | 'none' | (string & {});
  headers?: OutgoingHttpHeaders;
  method?: string;
}

const PIECE_BYTES = 65_536;

/** Client of one port. Paths are sent unchanged; responses are neither decompressed nor retried. */
export class Client {
  readonly #port: number;
  readonly #keys: Record<string, string | undefined>;
  // the server closes idle connections after 10 s; a request at that moment would fail
  readonly #agent: Agent;

  /** With `keepAlive` false, each request has its own connection. */
  constructor(port: number, keys: { full?: string; narrow?: string } = {}, keepAlive = true) {
    this.#port = port;
    this.#agent = new Agent({ keepAlive, timeout: 5_000 });
    this.#keys = { full: undefined, ...keys, none: undefined };
  }

  async request(
    path: string,
    { key = 'full', headers = {}, method = 'GET' }: RequestOptions = {},
    body?: Buffer,
  ): Promise<HttpResponse> {
    const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
    const apiKey = key in this.#keys ? this.#keys[key] : key;
    const outgoing = request({
      host: '127.0.0.1',
      port: this.#port,
      path,
      method,
      headers: {
        ...(apiKey !== undefined && { 'x-api-key': apiKey }),
        ...(body && { 'content-type': 'application/json', 'content-length': body.length }),
        ...headers,
      },
      agent: this.#agent,
    });
    let answered = false;
    outgoing.on('response', (response) => {
      answered = true;
      const chunks: Buffer[] = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        // rejected before the whole body was sent: the connection is unusable
        if (!outgoing.writableEnded) outgoing.destroy();
        const bytes = Buffer.concat(chunks);
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          body: bytes,
          get text() {
            return bytes.toString();
          },
          json: () => JSON.parse(bytes.toString()),
        });
      });
    });
    outgoing.on('error', (error) => {
      if (outgoing.reusedSocket) error.message += ', on a reused connection';
      reject(error);
    });
    // an error may arrive before the body is written
    let failed = false;
    const failing = promise.catch(() => {
      failed = true;
    });
    // in pieces, so that a response in the middle of a large body is received
    for (let start = 0; body && start < body.length && !answered && !failed; start += PIECE_BYTES) {
      const piece = body.subarray(start, start + PIECE_BYTES);
      await Promise.race([new Promise((resolve) => outgoing.write(piece, resolve)), failing]);
    }
    if (!answered && !failed) outgoing.end();
    return promise;
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** Decoders of the content codings that the service offers. */
export const DECODERS = { zstd: zstdDecompressSync, br: brotliDecompressSync, gzip: gunzipSync };
export type Coding = keyof typeof DECODERS;
export const CODINGS = Object.keys(DECODERS) as Coding[];
