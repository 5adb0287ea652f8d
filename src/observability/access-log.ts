import type { Logger } from 'pino';
import { Unavailable } from '../errors.ts';
import { monotonicMs, random } from '../lib/clock.ts';
import type { RequestCounter } from './request-histogram.ts';

/** Kinds of lines about requests. Lines that the limit suppresses are counted by them. */
export const LINE_KINDS = ['failed', 'slow', 'sampled'] as const;
type LineKind = (typeof LINE_KINDS)[number];

/** Maximum number of lines per second and kind. A line takes about 10 µs, and failures come in floods. */
const LINES_PER_SECOND: Record<LineKind, number> = { failed: 50, slow: 50, sampled: 1_000 };

/** Fields of a line about a request. They identify no person: neither address nor path is among them. */
interface LoggedRequest {
  readonly requestId: string;
  /** of the caller */
  readonly trace: { trace_id: string; span_id: string } | undefined;
  readonly counter: Pick<RequestCounter, 'route' | 'method'>;
  readonly principal: { readonly keyId: string } | undefined;
  /** the error, if one was thrown */
  readonly fault: unknown;
}

/**
 * Logs requests that failed (5xx), were slow, or belong to the sample. Lines suppressed in a flood are counted
 * in the metrics.
 */
export class AccessLog {
  readonly #log: Logger;
  readonly #onSuppressed: (kind: LineKind) => void;
  readonly #sample: number;
  readonly #slowSeconds: number;
  #written: Record<LineKind, number> = { failed: 0, slow: 0, sampled: 0 };
  #secondBeganAtMs = -Infinity;

  /** `sample`: share of all requests to be logged, from 0 to 1. `slowMs`: duration from which a request is slow. */
  constructor(
    log: Logger,
    options: { sample: number; slowMs: number; onSuppressed: (kind: LineKind) => void },
  ) {
    this.#log = log;
    this.#onSuppressed = options.onSuppressed;
    this.#sample = options.sample;
    this.#slowSeconds = options.slowMs / 1000;
  }

  /** Logs a finished request, or one that failed later; status 0: the client disconnected before the response. */
  finished(request: LoggedRequest, status: number, seconds: number, bytes: number): void {
    let kind: LineKind;
    if (status >= 500 || (status === 0 && request.fault !== undefined)) kind = 'failed';
    else if (seconds >= this.#slowSeconds) kind = 'slow';
    else if (this.#sample > 0 && random() < this.#sample) kind = 'sampled';
    else return;
    const nowMs = monotonicMs();
    if (nowMs - this.#secondBeganAtMs >= 1_000) {
      this.#secondBeganAtMs = nowMs;
      this.#written = { failed: 0, slow: 0, sampled: 0 };
    }
    if (this.#written[kind] >= LINES_PER_SECOND[kind]) {
      this.#onSuppressed(kind);
      return;
    }
    this.#written[kind]++;
    const { requestId, trace, counter, principal, fault } = request;
    const line = {
      requestId,
      ...trace,
      route: counter.route,
      method: counter.method,
      ...(status === 0 ? { aborted: true } : { status }),
      durationMs: Math.round(seconds * 1e6) / 1e3,
      bytes,
      keyId: principal?.keyId,
    };
    if (kind === 'sampled') this.#log.info(line, 'request');
    else if (kind === 'slow') this.#log.warn(line, 'slow request');
    else if (fault === undefined) this.#log.warn(line, 'request rejected');
    else if (fault instanceof Unavailable)
      this.#log.warn({ ...line, reason: fault.message }, 'request rejected');
    else this.#log.error({ ...line, err: fault }, 'request failed');
  }
}
