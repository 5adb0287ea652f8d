import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import { type Principal, seesAlike } from '../auth/principal.ts';
import { type PublicError, publicErrors, Unavailable } from '../errors.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { RateLimiter } from '../rate-limit/limiter.ts';
import { type RateLimitDecision, rateLimitHeaders } from '../rate-limit/rate-limit.ts';
import type { Exchange } from './exchange.ts';

/** Time from the start of a request after which its key is judged again. Most bodies arrive earlier. */
export const AT_ONCE_MS = 100;

/** Time in which a response for a key of a collection must be made or compressed: hotels may leave the collection meanwhile. */
export const MAX_UNSENT_MS = 600;
/** One shared error: see request-pipeline.ts. */
export const CHANGED = new Unavailable(
  'the key has changed while its response was made, or its collection may have',
  'overload',
);

/** Result of an authentication; an error if the key is not valid, or its rate limit is used up. */
export type Authentication = Principal | PublicError;

export function isPrincipal(result: Authentication): result is Principal {
  return 'keyId' in result;
}

/** Authenticates the key of a request (401), counts it against its rate limit (429), and authorizes the scope (403). */
export class AccessControl {
  readonly #apiKeys: ApiKeyCache;
  readonly #limiter: RateLimiter;
  readonly #metrics: Metrics;

  constructor(apiKeys: ApiKeyCache, limiter: RateLimiter, metrics: Metrics) {
    this.#apiKeys = apiKeys;
    this.#limiter = limiter;
    this.#metrics = metrics;
  }

  /** Authenticates the key, and counts the request if the key has a rate limit. */
  authenticate(exchange: Exchange): Authentication | Promise<Authentication> {
    const key = exchange.headers.apiKey ?? '';
    const principal = this.#apiKeys.find(key, exchange.nowMs);
    if (principal === undefined)
      return this.#apiKeys.load(key).then((loaded) => this.#count(exchange, loaded));
    return this.#count(exchange, principal);
  }

  #count(exchange: Exchange, principal: Principal | null): Authentication | Promise<Authentication> {
    if (principal === null) return publicErrors.unauthorized;
    const { limit } = principal;
    if (limit === null) return principal;
    const resultOf = (decision: RateLimitDecision): Authentication => {
      exchange.limitHeaders = rateLimitHeaders(limit, decision);
      if (decision.admitted) return principal;
      exchange.principal = principal;
      return publicErrors.tooManyRequests;
    };
    const decision = this.#limiter.take(principal.keyId, limit);
    return decision instanceof Promise ? decision.then(resultOf) : resultOf(decision);
  }

  /** Sets the principal of the request, or responds with 401 or 429 and returns false. */
  accept(exchange: Exchange, result: Authentication): result is Principal {
    // the client may have disconnected during the lookup of its key
    if (exchange.over) return false;
    if (isPrincipal(result)) {
      exchange.principal = result;
      return true;
    }
    if (result === publicErrors.tooManyRequests) this.#metrics.rejected.inc({ reason: 'rate_limit' });
    exchange.fail(result);
    return false;
  }

  /**
   * Judges the key of a request again that was not answered at once, without counting the request: the key may have been revoked
   * while the body arrived, or the response waited. Returns true if the request may be answered; else responds.
   */
  async mayStillAnswer(exchange: Exchange): Promise<boolean> {
    const may = this.mayAnswerNow(exchange);
    return may ?? this.#judge(exchange, await this.#apiKeys.load(exchange.headers.apiKey ?? ''));
  }

  /** Judges the key as `mayStillAnswer` does; undefined if it would have to be looked up. */
  mayAnswerNow(exchange: Exchange): boolean | undefined {
    const nowMs = monotonicMs();
    if (nowMs - exchange.startedAtMs < AT_ONCE_MS) return true;
    const principal = this.#apiKeys.find(exchange.headers.apiKey ?? '', nowMs);
    return principal === undefined ? undefined : this.#judge(exchange, principal);
  }

  #judge(exchange: Exchange, principal: Principal | null): boolean {
    return (
      this.accept(exchange, principal ?? publicErrors.unauthorized) &&
      this.authorize(exchange, exchange.needsRegistry)
    );
  }

  /**
   * Judges as `mayStillSee` a response that was made at this time for a key that was `before`, and was compressed since. Throws
   * `Unavailable` also if hotels may have left the collection of the key.
   */
  async mayStillSend(exchange: Exchange, before: Principal | undefined, madeAtMs: number): Promise<boolean> {
    if (!(await mayStillSee(this, exchange, before))) return false;
    if (exchange.principal!.collection !== null && monotonicMs() - madeAtMs > MAX_UNSENT_MS) throw CHANGED;
    return true;
  }

  /** Notes whether the request needs the scope `registry`. Responds with 403 and returns false if the key lacks it. */
  authorize(exchange: Exchange, needsRegistry: boolean): boolean {
    exchange.needsRegistry = needsRegistry;
    if (!needsRegistry || exchange.principal!.view === 'full') return true;
    exchange.fail(publicErrors.forbidden);
    return false;
  }
}

/**
 * Judges the key of a request again, for hotels that were read for what the key was `before`. Returns true if they may be sent;
 * else responds. Throws `Unavailable` if the key sees other hotels now.
 */
export async function mayStillSee(
  access: Pick<AccessControl, 'mayStillAnswer'>,
  exchange: Exchange,
  before: Principal | undefined,
): Promise<boolean> {
  if (!(await access.mayStillAnswer(exchange))) return false;
  if (!before || !seesAlike(exchange.principal!, before)) throw CHANGED;
  return true;
}
