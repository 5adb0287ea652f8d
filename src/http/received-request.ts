import type { HttpRequest } from 'uWebSockets.js';
import type { Principal } from '../auth/principal.ts';
import type { CountedMethod, RequestCounter, Route } from '../observability/request-histogram.ts';
import { type Encoding, encodingFor } from './compression.ts';
import { matches, type Tag } from './etag.ts';
import { ETAG, type Head, type Heads } from './head.ts';
import { RequestHeaders } from './request-headers.ts';
import { newIds, requestIdOf } from './request-id.ts';
import { type TraceContext, traceContextOf } from './trace-context.ts';

/** A request with what responses and log lines need: its headers, and what the pipeline and the handlers find out. */
export class ReceivedRequest {
  /** set by the pipeline */
  principal: Principal | undefined;
  /** set when it is authorized: it needs the `registry` scope */
  needsRegistry = false;
  /** set by the pipeline for a key with a rate limit: whole header lines, each after a line end */
  limitHeaders = '';
  /**
   * set by the pipeline if bytes behind the request could be taken for another request: the connection closes after
   * the response
   */
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

  get route(): Route {
    return this.counter.route;
  }

  get method(): CountedMethod {
    return this.counter.method;
  }

  get requestId(): string {
    return this.#ownId === '' ? newIds.text(this.#madeId) : this.#ownId;
  }

  /** Returns the trace context of the caller, for the log. */
  get trace(): TraceContext | undefined {
    return traceContextOf(this.headers.traceParent);
  }

  /** Returns the encoding that the client prefers for a large body; undefined: identity. */
  get encoding(): Encoding | undefined {
    this.#encoding ??= encodingFor(this.headers.acceptEncoding) ?? 'identity';
    return this.#encoding === 'identity' ? undefined : this.#encoding;
  }

  /** Returns true if the client already has the body with this tag. */
  isKnown(tag: Tag): boolean {
    if (tag === '') return false;
    const { ifNoneMatch } = this.headers;
    return !!ifNoneMatch && matches(ifNoneMatch, String(tag));
  }

  /** Begins the head of a response, up to the end of the tag, if there is one. */
  protected beginHead(heads: Heads, status: number, tag: Tag): Head {
    const ownId = this.#ownId;
    if (ownId === '' && typeof tag !== 'string') return heads.beginWithNewAndTag(status, this.#madeId, tag);
    const head = ownId === '' ? heads.beginWithNew(status, this.#madeId) : heads.begin(status).add(ownId);
    return tag === '' ? head : head.add(ETAG).add(String(tag));
  }
}
