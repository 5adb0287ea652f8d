import type { RateLimitDecision } from './limiter.ts';
import type { RateLimit } from './rate-limit.ts';

/**
 * Writes `RateLimit-Policy` (q requests in a window of w seconds) and `RateLimit` (r left, the window ends in t
 * seconds) as in draft-ietf-httpapi-ratelimit-headers-10. A rejected request gets `Retry-After` too. Each header begins
 * with a line end.
 */
export function rateLimitHeaders({ requests, windowMs }: RateLimit, decision: RateLimitDecision): string {
  const resetS = Math.max(1, Math.ceil(decision.resetInMs / 1000));
  const headers =
    `\r\nratelimit-policy: "default";q=${requests};w=${windowMs / 1000}` +
    `\r\nratelimit: "default";r=${decision.remaining};t=${resetS}`;
  return decision.admitted ? headers : `${headers}\r\nretry-after: ${resetS}`;
}
