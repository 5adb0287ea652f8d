import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { UsageCounter } from '../auth/usage.ts';
import { type PublicError, publicErrors, Unavailable } from '../errors.ts';
import type { HotelSizes } from '../hotels/hotel-sizes.ts';
import { nextIteration } from '../lib/clock.ts';
import { type EventLoop, workOf } from '../lib/event-loop.ts';
import type { AccessLog } from '../observability/access-log.ts';
import type { Metrics } from '../observability/metrics.ts';
import { type CountedMethod, METHODS } from '../observability/request-histogram.ts';
import { HTTP_ROUTES, type Route } from '../observability/routes.ts';
import type { RateLimiter } from '../rate-limit/limiter.ts';
import { AccessControl, type Authentication, isPrincipal } from './access-control.ts';
import { Admission, NEEDS_LOAD, type Pending } from './admission.ts';
import type { ConnectionTurnover } from './connection-turnover.ts';
import { Exchange, MAX_TAKEN_BYTES, type Observer } from './exchange.ts';
import type { AnswerPage } from './hotel-pages.ts';
import type { GetOperation, PostOperation } from './operations.ts';
import type { StaticPage } from './static-page.ts';
import { type ArrivingBody, collectBody } from './transfers.ts';

/** Usual length of an id in the body of a batch. */
const ID_BYTES = 13;

/** Handler as uWebSockets.js calls it. */
export type Handler = (response: HttpResponse, request: HttpRequest) => void;

interface PipelineParts {
  apiKeys: ApiKeyCache;
  limiter: RateLimiter;
  metrics: Metrics;
  accessLog: AccessLog;
  turnover: ConnectionTurnover;
  usage: UsageCounter;
  eventLoop: EventLoop;
  sizes: HotelSizes;
  /** false: responses are never compressed */
  compresses: boolean;
}

/**
 * Handles every request before and after its operation: makes the exchange, checks access, and turns every failure into a
 * response. No exception reaches uWebSockets.js, where it would end the worker.
 */
export class RequestPipeline implements Observer {
  readonly access: AccessControl;
  /** the one queue of the worker for what can wait */
  readonly eventLoop: EventLoop;
  readonly compresses: boolean;
  readonly #parts: PipelineParts;
  readonly #admission: Admission;
  /** set during shutdown: uWebSockets.js does not ask clients to close their connections */
  closing = false;
  /** number of requests without a response */
  inProgress = 0;
  /** number of requests whose response is not yet sent completely */
  unfinished = 0;
  finishedCount = 0;

  constructor(parts: PipelineParts) {
    const { apiKeys, limiter, metrics, eventLoop, sizes } = parts;
    this.access = new AccessControl(apiKeys, limiter, metrics);
    this.eventLoop = eventLoop;
    this.compresses = parts.compresses;
    this.#parts = parts;
    this.#admission = new Admission(eventLoop, sizes);
  }

  /** Creates a handler for GET or HEAD. */
  get(operation: GetOperation, method: 'GET' | 'HEAD'): Handler {
    return this.#handler(operation.route, method, (exchange, request) => {
      // nothing else is parsed before the key
      const result = this.access.authenticate(exchange);
      if (result instanceof Promise) {
        const input = operation.read(request);
        return result.then((authentication) => {
          if (this.access.accept(exchange, authentication)) return operation.respond(exchange, input);
        });
      }
      if (this.access.accept(exchange, result)) return operation.respond(exchange, operation.read(request));
    });
  }

  /** Creates a handler for POST. */
  post(operation: PostOperation): Handler {
    const respond = (exchange: Exchange, body: Uint8Array | undefined): void | Promise<void> => {
      if (body === undefined) return exchange.fail(publicErrors.bodyTooLarge);
      this.#parts.metrics.receivedBytes.inc({ http_route: HTTP_ROUTES[operation.route] }, body.length);
      this.#enter(exchange, body, (bytes, mayLoad) => operation.respond(exchange, bytes, mayLoad));
    };
    /** Returns true if the body is to be answered; else responds. */
    const isAdmitted = (exchange: Exchange, authentication: Authentication): boolean => {
      if (!this.access.accept(exchange, authentication)) return false;
      if (!this.access.authorize(exchange, operation.needsRegistry)) return false;
      if (exchange.headers.isTooLong) exchange.fail(publicErrors.bodyTooLarge);
      else if (exchange.headers.isCoded) exchange.fail(publicErrors.contentEncodingNotSupported);
      else if (this.#admission.isFull(authentication.keyId)) this.failed(exchange, OVERLOADED);
      else return true;
      return false;
    };
    return this.#handler(operation.route, 'POST', (exchange) => {
      const collect = (keeps: boolean, done: (body: Uint8Array | undefined) => void): ArrivingBody => {
        const arriving = collectBody(exchange.response, {
          done,
          keeps,
          late: () => exchange.rejectAndClose(publicErrors.bodyTooSlow),
          full: () => {
            exchange.closesConnection = true;
            this.failed(exchange, OVERLOADED);
          },
          client: exchange,
        });
        // of a rejected request, and of a client that has disconnected, nothing is kept
        exchange.whenMade(arriving.end);
        return arriving;
      };
      const result = this.access.authenticate(exchange);
      if (!(result instanceof Promise)) {
        if (!isAdmitted(exchange, result)) return;
        exchange.defer();
        collect(false, (body) => this.#guard(exchange, respond, body));
        return;
      }
      exchange.defer();
      // the key is looked up while the body arrives
      const body = Promise.withResolvers<Uint8Array | undefined>();
      let arriving: ArrivingBody | undefined;
      if (exchange.headers.isTooLong) body.resolve(undefined);
      else arriving = collect(true, body.resolve);
      return result.then(async (authentication) => {
        if (!isPrincipal(authentication)) arriving?.drop();
        // applies to every response: a close before its bytes are sent would drop it
        if (exchange.closesConnection) await body.promise;
        if (!isAdmitted(exchange, authentication)) return;
        const answering = respond(exchange, await body.promise);
        arriving?.end();
        return answering;
      });
    });
  }

  /** Creates a handler for GET or HEAD of a public page. */
  page(page: StaticPage, method: 'GET' | 'HEAD'): Handler {
    return this.#handler('page', method, async (exchange) => {
      exchange.defer();
      const { encoding } = exchange;
      const { body, tag } = await page.read(encoding);
      // Thousands of clients may request a page at once, without a key. The kernel takes milliseconds for a large one.
      await nextIteration();
      const size = workOf(Math.min(body.length, MAX_TAKEN_BYTES));
      const send = () => exchange.okEncoded(body, tag, encoding, '', page.heads);
      return this.#parts.eventLoop.run(exchange.owner, size, send);
    });
  }

  /** Creates a handler for unknown paths and methods; it needs no key. */
  reject(error: PublicError, headers = ''): Handler {
    const reject = (exchange: Exchange): void => exchange.fail(error, headers);
    const handlers = new Map<string, Handler>(
      METHODS.map((method) => [method, this.#handler('other', method, reject)]),
    );
    return (response, request) =>
      (handlers.get(request.getCaseSensitiveMethod()) ?? handlers.get('other')!)(response, request);
  }

  /** Answers a page of so many hotels when its turn comes, as a batch of them. */
  readonly answerPage: AnswerPage = (exchange, hotels, respond) => {
    this.#enter(exchange, new Uint8Array(0), (_, mayLoad) => respond(mayLoad), hotels);
    exchange.defer();
  };

  mustClose(): boolean {
    return this.closing || this.#parts.turnover.isDue();
  }

  sending(): void {
    this.inProgress--;
  }

  finished(exchange: Exchange, status: number, seconds: number, bytes: number): void {
    this.unfinished--;
    if (!exchange.sending) this.inProgress--;
    this.finishedCount++;
    if (status === 0) this.#parts.metrics.aborted.inc();
    else exchange.counter.count(status, seconds, bytes);
    // of a client that disconnects within a response, the kernel has taken the beginning
    const isPart = status === 0 && exchange.sending;
    const hotels = isPart || bytes > 0 ? exchange.hotels : 0;
    if (exchange.principal)
      this.#parts.usage.count(exchange.principal.keyId, isPart ? 200 : status, hotels, bytes);
    this.#parts.accessLog.finished(exchange, status, seconds, bytes);
  }

  /** Creates a handler of requests of which it is certain where they end. */
  #handler(
    route: Route,
    method: CountedMethod,
    serve: (exchange: Exchange, request: HttpRequest) => void | Promise<void>,
  ): Handler {
    const counter = this.#parts.metrics.requests.at(route, method);
    const check = (exchange: Exchange, request: HttpRequest): void | Promise<void> => {
      const error = exchange.framingError();
      return error ? exchange.rejectAndClose(error) : serve(exchange, request);
    };
    return (response, request) => {
      this.inProgress++;
      this.unfinished++;
      this.#guard(new Exchange(response, request, counter, this), check, request);
    };
  }

  /**
   * Answers a batch, or a page of so many hotels, when its turn comes, if its key may still read it then.
   *
   * States of its load. *Entered*: it waits for its turn. *Begun without load*: `mayLoad` is false, so it is answered from the local
   * cache, or `run` returns NEEDS_LOAD and it waits for the limit. *Loading*: `mayLoad` is true, and it takes part of the limit until
   * `done` is called. *Released*: `releaseLoad` called `done` early, because the request waits for large hotels, or another thread
   * compresses the response. *Made*: unless it was released, `done` is called when the response is made.
   */
  #enter(
    exchange: Exchange,
    body: Uint8Array,
    respond: (body: Uint8Array, mayLoad: boolean) => Pending,
    hotels?: number,
  ): void {
    this.#admission.enter(body, {
      run: (kept, mayLoad, done) => {
        let needsLoad = false;
        const run = (): void | Promise<void> => {
          const may = this.access.mayAnswerNow(exchange);
          if (may === false) return;
          if (may === undefined && mayLoad) {
            const own = new Uint8Array(kept);
            return this.access
              .mayStillAnswer(exchange)
              .then((still) => (still ? (respond(own, true) as Promise<void>) : undefined));
          }
          const pending = may ? respond(kept, mayLoad) : NEEDS_LOAD;
          if (pending !== NEEDS_LOAD) return pending;
          needsLoad = true;
        };
        exchange.releaseLoad = () => {
          exchange.releaseLoad = undefined;
          done();
        };
        this.#guard(exchange, run, undefined, () => exchange.releaseLoad && exchange.whenMade(done));
        return needsLoad ? NEEDS_LOAD : undefined;
      },
      reject: hotels === undefined ? () => this.failed(exchange, OVERLOADED) : undefined,
      bytes: hotels === undefined ? body.length : ID_BYTES * hotels,
      client: exchange,
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
        pending.catch((error) => this.failed(exchange, error)).then(after);
        return;
      }
    } catch (error) {
      this.failed(exchange, error);
    }
    after?.();
  }

  failed(exchange: Exchange, error: unknown): void {
    exchange.fault = error;
    if (exchange.over) {
      this.#parts.accessLog.finished(exchange, 0, (exchange.nowMs - exchange.startedAtMs) / 1000, 0);
      return;
    }
    const isUnavailable = error instanceof Unavailable;
    if (isUnavailable) this.#parts.metrics.rejected.inc({ reason: error.rejection });
    exchange.fail(isUnavailable ? publicErrors.unavailable : publicErrors.internal);
  }
}

/** One shared error: an error with its stack costs as much as the rest of a rejection. */
const OVERLOADED = new Unavailable(
  'more batches wait, or bytes of bodies, than can be answered in time',
  'overload',
);
