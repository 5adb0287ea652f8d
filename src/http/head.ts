import { charCodeAt } from '../lib/char-code-at.ts';
import { newIds } from './request-id.ts';

/** Initial size: enough for every response but those with long Link headers. */
const USUAL_BYTES = 512;

const DIGIT_0 = 48;
const LETTER_A = 97;

/**
 * Assembles status line and headers of similar responses as bytes. A string would be joined by V8, then measured and
 * copied by uWebSockets.js.
 */
class Head {
  readonly #startLength: number;
  #bytes: Buffer;
  #length = 0;
  /** views by length; making a view costs more than keeping it */
  #views: Uint8Array[] = [];

  /** `start`: the first lines, without the protocol version. */
  constructor(start: string) {
    this.#bytes = Buffer.alloc(start.length + USUAL_BYTES);
    this.#startLength = this.#bytes.write(start, 'latin1');
  }

  /** Begins the head of the next response. */
  begin(): this {
    this.#length = this.#startLength;
    return this;
  }

  /** Appends Latin-1 text. It may contain line ends, so callers must pass checked text only. */
  add(text: string): this {
    const { length } = text;
    if (this.#length + length > this.#bytes.length) this.#grow(length);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let i = 0; i < length; i++) bytes[at++] = charCodeAt(text, i);
    this.#length = at;
    return this;
  }

  /** Appends a number of 30 bits as six digits of base 32: 0 to 9, a to v. */
  addBase32(number: number): this {
    if (this.#length + 6 > this.#bytes.length) this.#grow(6);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let shift = 25; shift >= 0; shift -= 5) {
      const digit = (number >>> shift) & 31;
      bytes[at++] = digit < 10 ? DIGIT_0 + digit : LETTER_A + digit - 10;
    }
    this.#length = at;
    return this;
  }

  /** Returns the head without its last line end, valid until the next `begin`. */
  get bytes(): Uint8Array {
    this.#views[this.#length] ??= this.#bytes.subarray(0, this.#length);
    return this.#views[this.#length]!;
  }

  #grow(length: number): void {
    const grown = Buffer.alloc(2 * (this.#length + length));
    this.#bytes.copy(grown, 0, 0, this.#length);
    this.#bytes = grown;
    this.#views = [];
  }
}

const STATUS_LINES: Record<number, string> = {
  200: '200 OK',
  304: '304 Not Modified',
  400: '400 Bad Request',
  401: '401 Unauthorized',
  403: '403 Forbidden',
  404: '404 Not Found',
  405: '405 Method Not Allowed',
  408: '408 Request Timeout',
  410: '410 Gone',
  413: '413 Content Too Large',
  415: '415 Unsupported Media Type',
  429: '429 Too Many Requests',
  500: '500 Internal Server Error',
  503: '503 Service Unavailable',
};

/**
 * The library closes a connection that is idle for 8 to 11.6 s. Clients that heed this header close theirs before, and
 * so send no request on a connection that is closed at that moment.
 */
export const KEEP_ALIVE = '\r\nkeep-alive: timeout=7';

/** Holds the heads of responses with the same headers, one for each status. */
export class Heads {
  readonly #contentType: string;
  readonly #headers: string;
  readonly #byStatus: Head[] = [];
  /** with the first part of new request ids */
  readonly #ofNewIds: Head[] = [];

  /** `headers`: checked lines between content type and request id, each after a line end. */
  constructor(contentType: string, headers: string) {
    this.#contentType = `\r\ncontent-type: ${contentType}`;
    this.#headers = headers;
  }

  /** Begins the head of a response with this status, up to the value of `x-request-id`. */
  begin(status: number): Head {
    this.#byStatus[status] ??= new Head(this.#start(status));
    return this.#byStatus[status]!.begin();
  }

  /** Begins the head of the next response with this status, with a request id of `newIds`. */
  beginWithNew(status: number, id: number): Head {
    this.#ofNewIds[status] ??= new Head(this.#start(status) + newIds.start);
    return this.#ofNewIds[status]!.begin().addBase32(id);
  }

  #start(status: number): string {
    const type = status === 304 ? '' : this.#contentType;
    return `${STATUS_LINES[status]}${type}${this.#headers}\r\nx-request-id: `;
  }
}
