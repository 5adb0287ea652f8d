/** Maximum number of requests in each window, counted over all workers of an instance, or over all instances. */
export interface RateLimit {
  requests: number;
  windowMs: number;
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
