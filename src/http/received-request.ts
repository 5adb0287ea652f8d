import type { HttpRequest } from 'uWebSockets.js';
import type { Principal } from '../auth/principal.ts';
import { type PublicError, publicErrors } from '../errors.ts';
import type { Encoding } from '../hotels/entry.ts';
import type { CountedMethod, RequestCounter } from '../observability/request-histogram.ts';
import { type Answer, type Head, newIds, SEPARATOR, type Tag } from './head.ts';
import { MAX_BODY_BYTES, MAX_READ_BODY_BYTES } from './transfers.ts';

/* A request as it was received: its headers, where it ends, and what its client has and prefers. */

/** Request ids that may be echoed into a header and a log: no spaces, quotes or control characters. */
export const WELL_FORMED = /^[A-Za-z0-9._~+/=:@-]{1,128}$/;
/**
 * A host and a port as RFC 9112, section 3.2, and RFC 3986 permit them in `Host`: a name or an IPv4 address, or an address in
 * brackets. The name is not empty, because every URL of the service has one.
 */
const HOST = /^(?:\[[\w.~!$&'()*+,;=:%-]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})+)(?::\d*)?$/i;
/** `traceparent` of a W3C trace context, unless the specification requires to ignore it. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0+-)([0-9a-f]{32})-(?!0+-)([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?$/;

let reading: RequestHeaders;

/**
 * The request headers that the service reads; undefined: absent. Of repeated headers the first counts. One pass over all
 * of them finds repeated ones of the framing too. An empty first one would hide a body: the HTTP library would take its bytes
 * for the next request on a connection that a proxy shares. The values can be read after the handler returns.
 */
class RequestHeaders {
  acceptEncoding: string | undefined;
  apiKey: string | undefined;
  ifNoneMatch: string | undefined;
  requestId: string | undefined;
  traceParent: string | undefined;
  host: string | undefined;
  contentLength: string | undefined;
  transferEncoding: string | undefined;
  connection: string | undefined;
  hosts = 0;
  /** number of headers that frame a body */
  framings = 0;
  /** true if the body has a content coding */
  isCoded = false;

  constructor(request: HttpRequest) {
    reading = this;
    request.forEach(take);
  }

  /** Returns true if the client wants the connection to be closed, which the HTTP library does after the response. */
  get wantsClose(): boolean {
    return this.connection?.toLowerCase() === 'close';
  }

  /** Returns true if the body is known to be too large before it arrives. */
  get isTooLong(): boolean {
    return Number(this.contentLength) > MAX_BODY_BYTES;
  }
}

function take(name: string, value: string): void {
  const headers = reading;
  switch (name) {
    case 'host':
      headers.hosts++;
      headers.host ??= value;
      return;
    case 'x-api-key':
      headers.apiKey ??= value;
      return;
    case 'traceparent':
      headers.traceParent ??= value;
      return;
    case 'x-request-id':
      headers.requestId ??= value;
      return;
    case 'if-none-match':
      headers.ifNoneMatch ??= value;
      return;
    case 'accept-encoding':
      headers.acceptEncoding ??= value;
      return;
    case 'connection':
      headers.connection ??= value;
      return;
    case 'content-encoding':
      headers.isCoded ||= value !== '' && value.toLowerCase() !== 'identity';
      return;
    case 'content-length':
      headers.framings++;
      headers.contentLength ??= value;
      return;
    case 'transfer-encoding':
      headers.framings++;
      headers.transferEncoding ??= value;
  }
}

/** A request with what responses and log lines need: its headers, and what the pipeline and the handlers find out. */
export class ReceivedRequest {
  /** set by the pipeline */
  principal: Principal | undefined;
  /** set when it is authorized: it needs the `registry` scope */
  needsRegistry = false;
  /** set by the pipeline for a key with a rate limit: whole header lines, each after a line end */
  limitHeaders = '';
  /** set if bytes behind the request could be taken for another request: the connection closes after the response */
  closesConnection = false;
  /** hotels in the body of a 200, for the use of the key */
  hotels = 0;
  /** the error, for the log */
  fault: unknown;
  readonly headers: RequestHeaders;
  /** counter of its route and method */
  readonly counter: RequestCounter;
  /** request id of the client; '': its id is made here */
  readonly #ownId: string;
  readonly #madeId: number;
  /** set when it has been chosen */
  #encoding: Encoding | 'identity' | undefined;

  constructor(request: HttpRequest, counter: RequestCounter) {
    this.counter = counter;
    this.headers = new RequestHeaders(request);
    this.#ownId = requestIdOf(this.headers.requestId);
    this.#madeId = this.#ownId === '' ? newIds.next() : 0;
  }

  /** Returns the id of the API key; '' before it is known. */
  get owner(): string {
    return this.principal?.keyId ?? '';
  }

  get method(): CountedMethod {
    return this.counter.method;
  }

  get requestId(): string {
    return this.#ownId === '' ? newIds.text(this.#madeId) : this.#ownId;
  }

  /** Returns the ids of the caller's trace context, for the log. */
  get trace(): { trace_id: string; span_id: string } | undefined {
    return traceContextOf(this.headers.traceParent);
  }

  /** Returns the encoding that the client prefers for a large body; undefined: identity. */
  get encoding(): Encoding | undefined {
    this.#encoding ??= encodingFor(this.headers.acceptEncoding) ?? 'identity';
    return this.#encoding === 'identity' ? undefined : this.#encoding;
  }

  /**
   * Checks where the request ends. Returns the error of one without one valid host, of a GET or HEAD that declares a body in any way,
   * and of a body of which two readers may find different ends. The HTTP library uses the first of repeated headers, and treats
   * each transfer coding as chunked.
   */
  framingError(): PublicError | undefined {
    const { hosts, host, framings, contentLength, transferEncoding } = this.headers;
    if (hosts !== 1 || !isHost(host!)) return publicErrors.hostInvalid;
    if (this.method === 'GET' || this.method === 'HEAD') {
      const isBodiless = framings === 0 || (framings === 1 && /^0+$/.test(contentLength ?? ''));
      return isBodiless ? undefined : publicErrors.bodyNotAllowed;
    }
    const isChunked = transferEncoding?.toLowerCase() === 'chunked';
    if (framings > 1 || (framings === 1 && !isChunked && !/^\d+$/.test(contentLength ?? '')))
      return publicErrors.framingAmbiguous;
    // the library reads on for ever
    const isEndless = Number(contentLength) > MAX_READ_BODY_BYTES;
    // the library takes trailers, and what a header hides from it, for the next request
    this.closesConnection = isEndless || isChunked || framings === 0;
    return undefined;
  }

  /** Returns true if the client already has the body with this tag. */
  isKnown(tag: Tag): boolean {
    if (tag === '') return false;
    const { ifNoneMatch } = this.headers;
    return !!ifNoneMatch && matches(ifNoneMatch, String(tag));
  }

  /** Assembles the status line and all headers, for one call of the library, because each call costs. */
  protected headOf({ heads, status, tag, encoding, headers }: Answer): Head {
    const head = heads.begin(status, this.#ownId, this.#madeId, tag);
    const isIdentity = encoding === undefined;
    // bytes of another coding are another representation (RFC 9110, 8.8.3.3)
    if (tag !== '') head.add(isIdentity ? '"' : `${SEPARATOR}${encoding}"`);
    if (!isIdentity) head.add('\r\ncontent-encoding: ').add(encoding);
    if (headers !== '') head.add(headers);
    if (this.limitHeaders !== '') head.add(this.limitHeaders);
    return head;
  }
}

/** Returns the request id of a request's header; '' if it is missing or may not be echoed. */
export function requestIdOf(header: string | undefined): string {
  return header !== undefined && WELL_FORMED.test(header) ? header : '';
}

/** clients of one address send the same value */
let lastValidHost: string | undefined;

/** Returns true if this is a valid value of `Host`. */
export function isHost(value: string): boolean {
  if (value === lastValidHost) return true;
  if (!HOST.test(value)) return false;
  lastValidHost = value;
  return true;
}

/** Reads a `traceparent` header. `span_id` is that of the caller's span: the service makes none of its own. */
export function traceContextOf(
  header: string | undefined,
): { trace_id: string; span_id: string } | undefined {
  const [, trace_id, span_id] = TRACEPARENT.exec(header ?? '') ?? [];
  return trace_id && span_id ? { trace_id, span_id } : undefined;
}

/**
 * Returns true if an If-None-Match header contains this tag in quotes, with any coding, or is `*`. A weak mark does not
 * matter (RFC 9110, 13.1.2).
 */
export function matches(ifNoneMatch: string, tag: string): boolean {
  if (ifNoneMatch === '') return false;
  if (ifNoneMatch.trim() === '*') return true;
  const start = `"${tag}`;
  for (let at = ifNoneMatch.indexOf(start); at >= 0; at = ifNoneMatch.indexOf(start, at + 1)) {
    const behind = ifNoneMatch[at + start.length];
    if (behind === '"' || behind === SEPARATOR) return true;
  }
  return false;
}

const PREFERENCE: Encoding[] = ['zstd', 'br', 'gzip'];

/** Cached choices by header value: clients send few distinct values. */
const chosen = new Map<string, Encoding | undefined>();
const MAX_CHOSEN = 256;
/** Longest value that is parsed. Those of browsers have 30 characters. */
const MAX_CHOSEN_LENGTH = 128;

/**
 * Returns the supported encoding that Accept-Encoding prefers (RFC 9110, 12.5.3), or undefined for identity. A long value
 * counts as identity.
 */
export function encodingFor(acceptEncoding: string | undefined): Encoding | undefined {
  if (!acceptEncoding || acceptEncoding.length > MAX_CHOSEN_LENGTH) return undefined;
  const known = chosen.get(acceptEncoding);
  if (known !== undefined || chosen.has(acceptEncoding)) return known;
  const encoding = chooseEncoding(acceptEncoding);
  if (chosen.size >= MAX_CHOSEN) chosen.clear();
  chosen.set(acceptEncoding, encoding);
  return encoding;
}

function chooseEncoding(acceptEncoding: string): Encoding | undefined {
  const weights = new Map<string, number>();
  for (const part of acceptEncoding.toLowerCase().split(',')) {
    const [coding, ...parameters] = part.split(';').map((text) => text.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    if (coding && !weights.has(coding))
      weights.set(coding, weight === undefined ? 1 : Number(weight.slice(2)));
  }
  const wildcard = weights.get('*') ?? 0;
  // `*` means gzip at most, because clients that send it do not always know the newer codings
  if (!weights.has('gzip') && !weights.has('identity')) weights.set('gzip', wildcard);
  if (!weights.has('identity')) weights.set('identity', wildcard);
  const weightOf = (coding: string) => weights.get(coding) || 0;
  const best = PREFERENCE.reduce((a, b) => (weightOf(b) > weightOf(a) ? b : a));
  return weightOf(best) > 0 && weightOf(best) >= weightOf('identity') ? best : undefined;
}
