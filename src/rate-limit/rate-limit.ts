/** Maximum number of requests in each window, counted over all workers of an instance, or over all instances. */
export interface RateLimit {
  requests: number;
  windowMs: number;
}

export interface RateLimitDecision {
  admitted: boolean;
  /** requests left in the window, as far as this worker knows */
  remaining: number;
  resetInMs: number;
}

/** Request of a worker for requests that it may admit in the present window. */
export interface LeaseRequest {
  id: string;
  limit: RateLimit;
  wanted: number;
}

/** Grant of the primary process, smaller than requested only if nothing is left. */
export interface LeaseGrant {
  id: string;
  granted: number;
  /** requests left in the window after this grant */
  left: number;
  resetInMs: number;
}

/** Number of limits in a table above which those that have ended are removed. */
export const SWEEP_AT = 1_000;

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
