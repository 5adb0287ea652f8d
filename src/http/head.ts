import { hash, randomBytes } from 'node:crypto';
import type { StoredTag } from '../cache/arena/tag.ts';
import { publicErrors } from '../errors.ts';
import type { Encoding } from '../hotels/entry.ts';
import { TAG_BYTES } from '../hotels/entry-layout.ts';
import type { Body } from '../hotels/json-array.ts';
import { charCodeAt } from '../lib/char-code-at.ts';

/* Heads of responses: the status line, the request id, the tag and further headers. */

/** Tag of a body; '': none. */
export type Tag = string | StoredTag;

/** Separates the tag of the identity bytes from the name of a coding. No tag contains it. */
export const SEPARATOR = '.';

/** Initial size: enough for every response but those with long Link headers. */
const USUAL_HEAD_BYTES = 512;

/** Digits of the number of a new request id. */
const DIGITS = 6;
/** Begins the header of a tag. */
const ETAG = '\r\netag: "';

/** Bits of half the number of a new request id, and the rounds of its permutation. */
const HALF = 0x7fff;
const ROUNDS = 4;

/**
 * Makes ids for requests without one, unique in this process for 2^30 requests. A counter would show each client the
 * volume of the others, so a Feistel network with random keys permutes it. An id is `start` and a number of 30 bits as six
 * digits of base 32; most ids become a string only if a line about their request is logged.
 */
class NewIds {
  /** first part of each id */
  readonly start = randomBytes(9).toString('base64url');
  readonly #keys = new Int32Array(Uint8Array.from(randomBytes(4 * ROUNDS)).buffer);
  #count = 0;

  next(): number {
    const count = this.#count++;
    let left = count >>> 15;
    let right = count;
    for (let round = 0; round < ROUNDS; round++) {
      const mixed = Math.imul((right & HALF) ^ this.#keys[round]!, 0x9e3779b1);
      [left, right] = [right & HALF, (left ^ (mixed >>> 16) ^ mixed) & HALF];
    }
    return (left << 15) | right;
  }

  text(number: number): string {
    return this.start + number.toString(32).padStart(6, '0');
  }
}

export const newIds = new NewIds();

const DIGIT_0 = 48;
/** Distance from the character behind `9` to `a`. */
const TO_LETTER = 39;

/**
 * Assembles status line and headers of similar responses as bytes. A string would be joined by V8, then measured and
 * copied by uWebSockets.js.
 */
export class Head {
  readonly #startLength: number;
  #bytes: Buffer;
  #length = 0;
  /** views by length; making a view costs more than keeping it */
  #views: Uint8Array[] = [];

  /** `start`: the first lines, without the protocol version. */
  constructor(start: string) {
    this.#startLength = start.length;
    this.#bytes = Buffer.alloc(start.length + USUAL_HEAD_BYTES);
    this.#bytes.write(start, 'latin1');
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
    if (this.#length + DIGITS > this.#bytes.length) this.#grow(DIGITS);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let shift = 25; shift >= 0; shift -= 5) {
      const digit = (number >>> shift) & 31;
      // without a branch, which would be mispredicted often
      bytes[at++] = DIGIT_0 + digit + (((9 - digit) >> 31) & TO_LETTER);
    }
    this.#length = at;
    return this;
  }

  addTag({ bytes: from, at: fromAt }: StoredTag): this {
    if (this.#length + TAG_BYTES > this.#bytes.length) this.#grow(TAG_BYTES);
    const bytes = this.#bytes;
    const at = this.#length;
    for (let i = 0; i < TAG_BYTES; i++) bytes[at + i] = from[fromAt + i]!;
    this.#length = at + TAG_BYTES;
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
  /** with the beginning of a new request id */
  readonly #ofNewIds: Head[] = [];

  /** `headers`: checked lines between content type and request id, each after a line end. */
  constructor(contentType: string, headers: string) {
    this.#contentType = `\r\ncontent-type: ${contentType}`;
    this.#headers = headers;
  }

  /** Begins the head of a response, up to the end of the tag, if there is one. `ownId`: '' for the id of `newIds` with this number. */
  begin(status: number, ownId: string, newId: number, tag: Tag): Head {
    let head: Head;
    if (ownId === '') {
      this.#ofNewIds[status] ??= new Head(this.#start(status) + newIds.start);
      head = this.#ofNewIds[status]!.begin().addBase32(newId);
    } else {
      this.#byStatus[status] ??= new Head(this.#start(status));
      head = this.#byStatus[status]!.begin().add(ownId);
    }
    if (tag === '') return head;
    head.add(ETAG);
    return typeof tag === 'string' ? head.add(tag) : head.addTag(tag);
  }

  #start(status: number): string {
    const type = status === 304 ? '' : this.#contentType;
    return `${STATUS_LINES[status]}${type}${this.#headers}\r\nx-request-id: `;
  }
}

const JSON_TYPE = 'application/json';
const JSON_HEADERS = `\r\ncache-control: private, no-cache\r\nvary: accept-encoding, x-api-key${KEEP_ALIVE}`;
/** Heads of the responses of all operations. */
export const JSON_HEADS = new Heads(JSON_TYPE, JSON_HEADERS);
export const ERROR_HEADS = new Map(
  Object.values(publicErrors).map((error) => [error, new Heads(JSON_TYPE, JSON_HEADERS + error.headers)]),
);

export const CLOSE = '\r\nconnection: close';

/** A response before it is written. */
export interface Answer {
  status: number;
  /** undefined: it has none, not even a length */
  body: Body | undefined;
  tag: Tag;
  encoding: Encoding | undefined;
  /** whole lines, each after a line end */
  headers: string;
  heads: Heads;
}

/** Computes the tag of a body whose tag is not stored with it. */
export function tagOf(body: Uint8Array | string): string {
  return hash('sha1', body, 'base64url').slice(0, 16);
}

/**
 * Computes the tag of a list from the tags of its hotels, in a tenth of the time that its bytes would take. The tags may be
 * joined.
 */
export function listTagOf(tags: readonly (string | undefined)[] | Uint8Array): string {
  return tagOf(tags instanceof Uint8Array ? tags : tags.join(''));
}
