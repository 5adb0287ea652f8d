import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import type { Principal } from '../auth/access.ts';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import { publicErrors, Unavailable } from '../errors.ts';
import type { AccessLog } from '../observability/access-log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { RequestCounter } from '../observability/request-histogram.ts';
import { rateLimitHeaders } from '../rate-limit/headers.ts';
import type { RateLimitDecision, RateLimiter } from '../rate-limit/limiter.ts';
import { Admission, NEEDS_LOAD } from './admission.ts';
import { collectBody } from './body.ts';
import { Exchange, type Observer } from './exchange.ts';
import { bodyCoding, type Framing, framingOf, hasBody } from './framing.ts';
import type { Page } from './page.ts';
import type { GetRouteDefinition, PostRouteDefinition } from './routes.ts';

/** A key that is good though it may not ask at present: it has had what its limit allows. */
const SPENT = Symbol('spent');
type PipelineEntry = Principal | null | typeof SPENT;

/** A handler as uWebSockets.js calls it. */
export type Handler = (response: HttpResponse, request: HttpRequest) => void;

/**
 * The door of every route: it makes the exchange, judges the key (401) and the scope (403), and turns whatever
 * goes wrong behind it into an answer. No exception reaches uWebSockets.js: it would end the worker.
 */
export class RequestPipeline implements Observer {
  readonly #apiKeys: ApiKeyCache;
  readonly #limiter: RateLimiter;
  readonly #metrics: Metrics;
  readonly #accessLog: AccessLog;
  readonly #admission = new Admission();
  /** set when the worker ends: uWebSockets.js itself tells nobody, and who is not told goes on asking */
  closing = false;
  readonly compresses: boolean;
  #unfinished = 0;
  #sending = 0;
  #answered = 0;

  constructor(
    apiKeys: ApiKeyCache,
    limiter: RateLimiter,
    metrics: Metrics,
    accessLog: AccessLog,
    compresses: boolean,
  ) {
    this.compresses = compresses;
    this.#apiKeys = apiKeys;
    this.#limiter = limiter;
    this.#metrics = metrics;
    this.#accessLog = accessLog;
  }

  /** Requests that have no answer yet. */
  get inProgress(): number {
    return this.#unfinished - this.#sending;
  }

  /** Requests that have no answer yet, or whose clients have not taken all of it. */
  get unfinished(): number {
    return this.#unfinished;
  }

  /** Batches that wait for the event loop, or for others to be loaded. */
  get batchesWaiting(): number {
    return this.#admission.waiting;
  }

  /** Requests that are over, one way or the other. */
  get answered(): number {
    return this.#answered;
  }

  /** A handler for GET or HEAD. */
  get<Input>(rule: GetRouteDefinition<Input>, method: 'GET' | 'HEAD'): Handler {
    const counter = this.#metrics.requests.at(rule.route, method);
    const serve = (exchange: Exchange, request: HttpRequest): void | Promise<void> => {
      if (!isBodiless(exchange, request)) return;
      const key = request.getHeader('x-api-key');
      const input = rule.read(request);
      const entry = this.#authenticate(exchange, key);
      if (entry instanceof Promise) {
        return entry.then((entered) => {
          if (this.#withinLimit(exchange, entered, rule.needsRegistry(input)))
            return rule.answer(exchange, input);
        });
      }
      if (this.#withinLimit(exchange, entry, rule.needsRegistry(input))) return rule.answer(exchange, input);
    };
    return (response, request) => this.#guard(this.#open(response, request, counter), serve, request);
  }

  /** A handler for POST. */
  post(rule: PostRouteDefinition): Handler {
    const counter = this.#metrics.requests.at(rule.route, 'POST');
    const answer = (exchange: Exchange, body: Uint8Array | undefined): void => {
      if (body === undefined) {
        exchange.fail(publicErrors.bodyTooLarge);
        return;
      }
      this.#metrics.received(rule.route, body.length);
      this.#enter(exchange, rule, body);
    };
    return (response, request) => {
      const serve = (exchange: Exchange): void | Promise<void> => {
        const late = () => exchange.rejectAndClose(publicErrors.bodyTooSlow);
        const framing = checkFraming(exchange, request);
        if (framing === 'ambiguous') return;
        const isCoded = bodyCoding !== undefined;
        const key = request.getHeader('x-api-key');
        const entry = this.#authenticate(exchange, key);
        if (!(entry instanceof Promise)) {
          if (!this.#withinLimit(exchange, entry, rule.needsRegistry)) return;
          if (framing === 'tooLong') return answer(exchange, undefined);
          if (isCoded) return exchange.fail(publicErrors.contentEncodingNotSupported);
          if (this.#admission.isFull(entry.keyId)) return this.#failed(exchange, OVERLOADED);
          exchange.defer();
          collectBody(response, (body) => this.#guard(exchange, answer, body), late);
          return;
        }
        exchange.defer();
        // the key is looked up while the body arrives
        const body = Promise.withResolvers<Uint8Array | undefined>();
        if (framing === 'tooLong') body.resolve(undefined);
        else collectBody(response, (bytes) => body.resolve(bytes && new Uint8Array(bytes)), late);
        return entry.then(async (entered) => {
          // whatever the answer is: a close while bytes are on their way would take it back
          if (exchange.closesConnection) await body.promise;
          if (!this.#withinLimit(exchange, entered, rule.needsRegistry)) return;
          if (isCoded && framing !== 'tooLong') exchange.fail(publicErrors.contentEncodingNotSupported);
          else answer(exchange, await body.promise);
        });
      };
      this.#guard(this.#open(response, request, counter), serve, undefined);
    };
  }

  /** A handler for GET or HEAD of what anybody may see. */
  page(page: Page, method: 'GET' | 'HEAD'): Handler {
    const counter = this.#metrics.requests.at('page', method);
    const serve = (exchange: Exchange, request: HttpRequest) =>
      isBodiless(exchange, request) ? exchange.page(page) : undefined;
    return (response, request) => this.#guard(this.#open(response, request, counter), serve, request);
  }

  /** A handler for what the contract does not know; needs no key. */
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

  sending(): void {
    this.#sending++;
  }

  finished(exchange: Exchange, status: number, seconds: number, bytes: number): void {
    this.#unfinished--;
    if (exchange.sending) this.#sending--;
    this.#answered++;
    if (status === 0) this.#metrics.aborted();
    else exchange.counter.count(status, seconds, bytes);
    this.#accessLog.finished(exchange, status, seconds, bytes);
  }

  #open(response: HttpResponse, request: HttpRequest, counter: RequestCounter): Exchange {
    this.#unfinished++;
    return new Exchange(response, request, counter, this);
  }

  /** Judges the key and counts the request where its key has a limit. */
  #authenticate(exchange: Exchange, key: string): PipelineEntry | Promise<PipelineEntry> {
    const principal = this.#apiKeys.find(key, exchange.nowMs);
    if (principal === null || principal?.limit === null) return principal;
    if (principal === undefined)
      return this.#apiKeys
        .load(key)
        .then((loaded) => (loaded?.limit ? this.#count(exchange, loaded) : loaded));
    return this.#count(exchange, principal);
  }

  #count(exchange: Exchange, principal: Principal): PipelineEntry | Promise<PipelineEntry> {
    const entryAfter = (decision: RateLimitDecision): PipelineEntry => {
      exchange.limitHeaders = rateLimitHeaders(principal.limit!, decision);
      if (decision.admitted) return principal;
      exchange.principal = principal;
      return SPENT;
    };
    const decision = this.#limiter.take(principal.keyId, principal.limit!);
    return decision instanceof Promise ? decision.then(entryAfter) : entryAfter(decision);
  }

  #withinLimit(exchange: Exchange, principal: PipelineEntry, needsRegistry: boolean): principal is Principal {
    // the client may have left while its key was looked up
    if (exchange.over) return false;
    if (principal === null) {
      exchange.fail(publicErrors.unauthorized);
      return false;
    }
    if (principal === SPENT) {
      this.#metrics.rejected('rate_limit');
      exchange.fail(publicErrors.tooManyRequests);
      return false;
    }
    exchange.principal = principal;
    if (!needsRegistry || principal.view === 'full') return true;
    exchange.fail(publicErrors.forbidden);
    return false;
  }

  #enter(exchange: Exchange, rule: PostRouteDefinition, body: Uint8Array): void {
    this.#admission.enter(body, {
      run: (bytes, mayLoad, done) => {
        let needsLoad = false;
        const answer = (): void | Promise<void> => {
          const pending = rule.answer(exchange, bytes, mayLoad);
          if (pending !== NEEDS_LOAD) return pending;
          needsLoad = true;
        };
        this.#guard(exchange, answer, undefined, () => exchange.whenMade(done));
        return needsLoad ? NEEDS_LOAD : undefined;
      },
      reject: () => this.#failed(exchange, OVERLOADED),
      owner: exchange.principal!.keyId,
      get over() {
        return exchange.over;
      },
    });
  }

  /** Does the work, now or later, and answers where it fails; calls `after` when it is done. */
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
    if (isUnavailable) this.#metrics.rejected(error.rejection);
    exchange.fail(isUnavailable ? publicErrors.unavailable : publicErrors.internal);
  }
}

/** Judges a GET or HEAD; answers one that has a body. */
function isBodiless(exchange: Exchange, request: HttpRequest): boolean {
  if (!hasBody(request)) return true;
  exchange.rejectAndClose(publicErrors.bodyNotAllowed);
  return false;
}

/** Judges how a request with a method that may have a body tells its end; answers where that is ambiguous. */
function checkFraming(exchange: Exchange, request: HttpRequest): Framing {
  const framing = framingOf(request);
  if (framing === 'ambiguous') exchange.rejectAndClose(publicErrors.framingAmbiguous);
  // the library takes trailers for the next request, and what a header hides from it too
  else exchange.closesConnection = framing === 'chunked' || framing === 'unsaid';
  return framing;
}

/** One for all: to make an error with its stack costs as much as the rest of a refusal. */
const OVERLOADED = new Unavailable('more batches wait than can be answered in time', {
  rejection: 'overload',
});
