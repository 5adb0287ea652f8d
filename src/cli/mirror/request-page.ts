import { setTimeout as sleep } from 'node:timers/promises';
import { Failure } from '../../lib/failure.ts';

const LIMIT = 1000;
/** Timeout in addition to the requested wait. */
const TIMEOUT_MS = 30_000;
const ATTEMPTS = 8;
const RETRIED = [408, 429, 500, 502, 503, 504];
/** Maximum of a server's Retry-After that is followed. */
const MAX_RETRY_AFTER_S = 60;

interface Page {
  changes: { id: string; hotel: { id: string } | null }[];
  next: string;
  more: boolean;
}

/** Address and key of an API. */
interface Api {
  /** base address, without a slash at its end */
  base: string;
  key: string;
  /** aborts a request and every wait */
  signal: AbortSignal;
}

/** Retry policy of a request. */
interface Retries {
  /** whether the address has returned a page before: any other response is then temporary */
  isKnown: boolean;
  /** whether it is retried without end */
  forever: boolean;
  /** receives the fault before a long wait */
  log: (fault: string) => void;
}

/**
 * Returns the page after `next`, 'expired' if the server says so, or undefined after the signal. Retries temporary errors.
 * Throws a `Failure`.
 */
export async function requestPage(
  { base, key, signal }: Api,
  next: string | undefined,
  waitS: number,
  { isKnown, forever, log }: Retries,
): Promise<Page | 'expired' | undefined> {
  const after = next === undefined ? '' : `&after=${encodeURIComponent(next)}`;
  const url = `${base}/changes?limit=${LIMIT}&wait=${waitS}${after}`;
  for (let attempt = 1; ; attempt++) {
    let fault: string;
    let waitMs = 100 * 2 ** Math.min(attempt, ATTEMPTS) * (1 + Math.random());
    try {
      const response = await fetch(url, {
        headers: { 'x-api-key': key },
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS + 1000 * waitS)]),
      });
      const text = await response.text();
      const { status, headers } = response;
      const page = response.ok ? readPage(text) : undefined;
      if (page) return page;
      // the code, because a gateway may answer 410 by itself
      if (after && headers.get('x-error-code') === 'token_expired') return 'expired';
      fault = response.ok
        ? `${base} answers ${status} with no page of changes. Check the address: it ends before /changes`
        : `${base} answers ${status} ${text.slice(0, 200)}`;
      if (response.ok ? !isKnown : !RETRIED.includes(status)) throw new Failure(fault);
      const retryAfterS = Number(headers.get('retry-after') ?? 0) || 0;
      waitMs = Math.max(waitMs, 1000 * Math.min(retryAfterS, MAX_RETRY_AFTER_S));
    } catch (error) {
      if (error instanceof Failure) throw error;
      if (signal.aborted) return undefined;
      const { message, cause } = error as Error;
      fault = `${base}: ${(cause as Error | undefined)?.message ?? message}`;
    }
    if (attempt >= ATTEMPTS) {
      if (!forever) throw new Failure(fault);
      log(`${fault}; trying again in ${Math.ceil(waitMs / 1000)} s`);
    }
    await sleep(waitMs, undefined, { signal }).catch(() => {});
  }
}

/** Returns undefined for anything but a page, so that no other server's response changes the copy. */
function readPage(text: string): Page | undefined {
  try {
    const page = JSON.parse(text) as Page;
    const isValid = page.changes.every(
      ({ id, hotel }) => typeof id === 'string' && (hotel === null || hotel.id === id),
    );
    if (isValid && typeof page.next === 'string' && typeof page.more === 'boolean') return page;
  } catch {
    // no JSON, or other fields
  }
  return undefined;
}
