import type { Row } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import type { RateLimit } from '../../rate-limit/rate-limit.ts';

const UNITS = { 1000: 's', 60000: 'm', 3600000: 'h' };

/** Returns the rate limit of a row of `api_keys`. */
export function limitOf({
  rate_limit_requests: requests,
  rate_limit_window_s: windowS,
}: Row): RateLimit | null {
  return requests === null ? null : { requests, windowMs: 1000 * windowS };
}

/** Returns a rate limit as the command line takes it. */
export function written(rateLimit: RateLimit | null): string | null {
  return rateLimit && `${rateLimit.requests}/${UNITS[rateLimit.windowMs as keyof typeof UNITS]}`;
}

/** Throws that no key has this id. */
export function unknownKey(id: string): never {
  throw new Failure(`There is no key with the id ${JSON.stringify(id)}. List them: hotel-api keys list`);
}
