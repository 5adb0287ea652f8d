import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { Principal } from '../auth/principal.ts';
import { publicErrors, Unavailable } from '../errors.ts';
import { EventLoop } from '../lib/event-loop.ts';
import type { AccessLog } from '../observability/access-log.ts';
import type { Metrics } from '../observability/metrics.ts';
import { HTTP_ROUTES, type RequestCounter } from '../observability/request-histogram.ts';
import { rateLimitHeaders } from '../rate-limit/headers.ts';
import type { RateLimitDecision, RateLimiter } from '../rate-limit/limiter.ts';
import { Admission, NEEDS_LOAD } from './admission.ts';
import { collectBody } from './body.ts';
import type { ConnectionTurnover } from './connection-turnover.ts';
import { Exchange, type Observer } from './exchange.ts';
import { bodyCoding, type Framing, framingOf, hasBody } from './framing.ts';
import { API_KEY } from './header-names.ts';
import type { GetRouteDefinition, PostRouteDefinition } from './routes.ts';
import type { StaticPage } from './static-page.ts';

/** Result for a valid key whose rate limit is used up. */
const LIMIT_REACHED = Symbol('limit reached');
type AuthenticationResult = Principal | null | typeof LIMIT_REACHED;

/** Handler as uWebSockets.js calls it. */
export type Handler = (response: HttpResponse, request: HttpRequest) => void;

/**
 * Handles every request before and after its operation. It makes the exchange, authenticates the key (401), counts the
 * request against its rate limit (429), authorizes the scope (403), and turns every failure into a response. No exception
 * reaches uWebSockets.js, where it would end the worker.
 */
export class RequestPipeline implements Observer {
  readonly #apiKeys: ApiKeyCache;
  readonly #limiter: RateLimiter;
  readonly #metrics: Metrics;
  readonly #accessLog: AccessLog;
  /** the one queue of the worker for what can wait */
  readonly eventLoop = new EventLoop();
  readonly #admission = new Admission(this.eventLoop);
  /** set during shutdown: uWebSockets.js does not ask clients to close their connections */
  closing = false;
  readonly #turnover: ConnectionTurnover;
  readonly compresses: boolean;
  #unfinished = 0;
  #sending = 0;
  #finishedCount = 0;

  constructor(
    apiKeys: ApiKeyCache,
    limiter: RateLimiter,
    metrics: Metrics,
    accessLog: AccessLog,
    turnover: ConnectionTurnover,
    compresses: boolean,
  ) {
    this.#turnover = turnover;
    this.compresses = compresses;
    this.#apiKeys = apiKeys;
    this.#limiter = limiter;
    this.#metrics = metrics;
    this.#accessLog = accessLog;
  }

  /** Returns the number of requests without a response. */
  get inProgress(): number {
    return this.#unfinished - this.#sending;
  }

  /** Returns the number of requests whose response is not yet sent completely. */
  get unfinished(): number {
    return this.#unfinished;
  }

  /** Returns the number of batches that wait for the event loop or for loads. */
  get batchesWaiting(): number {
    return this.#admission.waiting;
  }

  /** Returns the number of finished requests. */
  get finishedCount(): number {
    return this.#finishedCount;
  }

  /** Creates a handler for GET or HEAD. */
  get<Input>(definition: GetRouteDefinition<Input>, method: 'GET' | 'HEAD'): Handler {
    const counter = this.#metrics.requests.at(definition.route, method);
    const serve = (exchange: Exchange, request: HttpRequest): void | Promise<void> => {
      if (!isBodiless(exchange, request)) return;
      // nothing else is parsed before it
      const key = request.getHeader(API_KEY);
      const entry = this.#authenticate(exchange, key);
      if (entry instanceof Promise) {
        const input = definition.read(request);
        return entry.then((entered) => {
          if (this.#accept(exchange, entered)) return this.#respond(exchange, definition, input);
        });
      }
      if (this.#accept(exchange, entry)) return this.#respond(exchange, definition, definition.read(request));
    };
    return (response, request) => this.#guard(this.#open(response, request, counter), serve, request);
  }

  /** Creates a handler for POST. */
  post(definition: PostRouteDefinition): Handler {
    const counter = this.#metrics.requests.at(definition.route, 'POST');
    const respond = (exchange: Exchange, body: Uint8Array | undefined): void => {
      if (body === undefined) {
        exchange.fail(publicErrors.bodyTooLarge);
        return;
      }
      this.#metrics.receivedBytes.inc({ http_route: HTTP_ROUTES[definition.route] }, body.length);
      this.#enter(exchange, definition, body);
    };
    return (response, request) => {
      const serve = (exchange: Exchange): void | Promise<void> => {
        const late = () => exchange.rejectAndClose(publicErrors.bodyTooSlow);
        const framing = checkFraming(exchange, request);
        if (framing === 'ambiguous') return;
        const isCoded = bodyCoding !== undefined;
        const key = request.getHeader(API_KEY);
        const entry = this.#authenticate(exchange, key);
        if (!(entry instanceof Promise)) {
          if (!this.#accept(exchange, entry)) return;
          if (!this.#authorize(exchange, definition.needsRegistry)) return;
          if (framing === 'tooLong') return respond(exchange, undefined);
          if (isCoded) return exchange.fail(publicErrors.contentEncodingNotSupported);
          if (this.#admission.isFull(entry.keyId)) return this.#failed(exchange, OVERLOADED);
          exchange.defer();
          collectBody(response, (body) => this.#guard(exchange, respond, body), late);
          return;
        }
        exchange.defer();
        // the key is looked up while the body arrives
        const body = Promise.withResolvers<Uint8Array | undefined>();
        if (framing === 'tooLong') body.resolve(undefined);
        else collectBody(response, (bytes) => body.resolve(bytes && new Uint8Array(bytes)), late);
        return entry.then(async (entered) => {
          // applies to every response: a close before its bytes are sent would drop it
          if (exchange.closesConnection) await body.promise;
          if (!this.#accept(exchange, entered)) return;
          if (!this.#authorize(exchange, definition.needsRegistry)) return;
          if (isCoded && framing !== 'tooLong') exchange.fail(publicErrors.contentEncodingNotSupported);
          else respond(exchange, await body.promise);
        });
      };
      this.#guard(this.#open(response, request, counter), serve, undefined);
    };
  }

  /** Creates a handler for GET or HEAD of a public page. */
  page(page: StaticPage, method: 'GET' | 'HEAD'): Handler {
    const counter = this.#metrics.requests.at('page', method);
    const serve = (exchange: Exchange, request: HttpRequest) =>
      isBodiless(exchange, request) ? exchange.page(page) : undefined;
    return (response, request) => this.#guard(this.#open(response, request, counter), serve, request);
  }

  /** Creates a handler for unknown paths and methods; it needs no key. */
  reject(reject: (exchange: Exchange, request: HttpRequest) => void): Handler {
    const { requests } = this.#metrics;
    return (response, request) => {
      const method = request.getCaseSensitiveMethod();
      const counted = method === 'GET' || method === 'HEAD' || method === 'POST' ? method : 'other';
      const serve = (exchange: Exchange): void => {
        const mayHaveBody = counted !== 'GET' && counted !== 'HEAD';
        if (mayHaveBody ? checkFraming(exchange, request) !== 'ambiguous' : isBodiless(exchange, request))
          reject(exchange, request);
      };
      this.#guard(this.#open(response, request, requests.at('other', counted)), serve, undefined);
    };
  }

  mustClose(): boolean {
    return this.closing || this.#turnover.isDue();
  }

  sending(): void {
    this.#sending++;
  }

  finished(exchange: Exchange, status: number, seconds: number, bytes: number): void {
    this.#unfinished--;
    if (exchange.sending) this.#sending--;
    this.#finishedCount++;
    if (status === 0) this.#metrics.aborted.inc();
    else exchange.counter.count(status, seconds, bytes);
    this.#accessLog.finished(exchange, status, seconds, bytes);
  }

  #open(response: HttpResponse, request: HttpRequest, counter: RequestCounter): Exchange {
    this.#unfinished++;
    return new Exchange(response, request, counter, this);
  }

  /** Authenticates the key, and counts the request if the key has a rate limit. */
  #authenticate(exchange: Exchange, key: string): AuthenticationResult | Promise<AuthenticationResult> {
    const principal = this.#apiKeys.find(key, exchange.nowMs);
    if (principal === null || principal?.limit === null) return principal;
    if (principal === undefined)
      return this.#apiKeys
        .load(key)
        .then((loaded) => (loaded?.limit ? this.#count(exchange, loaded) : loaded));
    return this.#count(exchange, principal);
  }

  #count(exchange: Exchange, principal: Principal): AuthenticationResult | Promise<AuthenticationResult> {
    const resultOf = (decision: RateLimitDecision): AuthenticationResult => {
      exchange.limitHeaders = rateLimitHeaders(principal.limit!, decision);
      if (decision.admitted) return principal;
      exchange.principal = principal;
      return LIMIT_REACHED;
    };
    const decision = this.#limiter.take(principal.keyId, principal.limit!);
    return decision instanceof Promise ? decision.then(resultOf) : resultOf(decision);
  }

  /** Sets the principal of the request, or responds with 401 or 429 and returns false. */
  #accept(exchange: Exchange, principal: AuthenticationResult): principal is Principal {
    // the client may have disconnected during the lookup of its key
    if (exchange.over) return false;
    if (principal === null) {
      exchange.fail(publicErrors.unauthorized);
      return false;
    }
    if (principal === LIMIT_REACHED) {
      this.#metrics.rejected.inc({ reason: 'rate_limit' });
      exchange.fail(publicErrors.tooManyRequests);
      return false;
    }
    exchange.principal = principal;
    return true;
  }

  /** Responds with 403 and returns false if the key lacks the scope that the request needs. */
  #authorize(exchange: Exchange, needsRegistry: boolean): boolean {
    if (!needsRegistry || exchange.view === 'full') return true;
    exchange.fail(publicErrors.forbidden);
    return false;
  }

  #respond<Input>(
    exchange: Exchange,
    definition: GetRouteDefinition<Input>,
    input: Input,
  ): void | Promise<void> {
    if (this.#authorize(exchange, definition.needsRegistry(input)))
      return definition.respond(exchange, input);
  }

  #enter(exchange: Exchange, definition: PostRouteDefinition, body: Uint8Array): void {
    this.#admission.enter(body, {
      run: (bytes, mayLoad, done) => {
        let needsLoad = false;
        const respond = (): void | Promise<void> => {
          const pending = definition.respond(exchange, bytes, mayLoad);
          if (pending !== NEEDS_LOAD) return pending;
          needsLoad = true;
        };
        this.#guard(exchange, respond, undefined, () => exchange.whenMade(done));
        return needsLoad ? NEEDS_LOAD : undefined;
      },
      reject: () => this.#failed(exchange, OVERLOADED),
      owner: exchange.owner,
      get over() {
        return exchange.over;
      },
    });
  }

  /** Runs the work now or later and answers its failure; calls `after` when it is done. */
  #guard<Subject>(
    exchange: Exchange,
    work: (exchange: Exchange, subject: Subject) => void | Promise<void>,
    subject: Subject,
    after?: () => void,
  ): void {
    try {
      const pending = work(exchange, subject);
      if (pending) {
        exchange.defer();
        pending.catch((error) => this.#failed(exchange, error)).then(after);
        return;
      }
    } catch (error) {
      this.#failed(exchange, error);
    }
    after?.();
  }

  #failed(exchange: Exchange, error: unknown): void {
    exchange.fault = error;
    const isUnavailable = error instanceof Unavailable;
    if (exchange.over) {
      this.#accessLog.failedUnreceived(exchange);
      return;
    }
    if (isUnavailable) this.#metrics.rejected.inc({ reason: error.rejection });
    exchange.fail(isUnavailable ? publicErrors.unavailable : publicErrors.internal);
  }
}

/** Checks a GET or HEAD; rejects one with a body. */
function isBodiless(exchange: Exchange, request: HttpRequest): boolean {
  if (!hasBody(request)) return true;
  exchange.rejectAndClose(publicErrors.bodyNotAllowed);
  return false;
}

/** Checks the framing of a request whose method may have a body; rejects it if it is ambiguous. */
function checkFraming(exchange: Exchange, request: HttpRequest): Framing {
  const framing = framingOf(request);
  if (framing === 'ambiguous') exchange.rejectAndClose(publicErrors.framingAmbiguous);
  // the library takes trailers, and what a header hides from it, for the next request
  else exchange.closesConnection = framing === 'chunked' || framing === 'absent';
  return framing;
}

/** One shared error: an error with its stack costs as much as the rest of a rejection. */
const OVERLOADED = new Unavailable('more batches wait than can be answered in time', {
  rejection: 'overload',
});
