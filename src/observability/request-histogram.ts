import type { Registry } from 'prom-client';
import { HTTP_ROUTES, ROUTES, type Route } from './routes.ts';

/** Upper bounds of the buckets in seconds, from 100 µs up. */
const BOUNDS = [
  1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5,
] as const;
export const METHODS = ['GET', 'HEAD', 'POST', 'other'] as const;
/** Statuses that alerts use in divisions: they are exported before the first response. */
const EXPECTED_STATUSES = [200, 500, 503];

/** Method label of a request. */
export type CountedMethod = (typeof METHODS)[number];

/** Counts the requests of one route and method. */
export class RequestCounter {
  readonly route: Route;
  readonly method: CountedMethod;
  /** by status: the count of each bucket, one more for values above the last bound, and the sum */
  readonly cells: Float64Array[] = [];
  /** bytes of all response bodies */
  sentBytes = 0;

  constructor(route: Route, method: CountedMethod) {
    this.route = route;
    this.method = method;
  }

  /** Counts an answered request; `bytes` is the size of the body as sent. */
  count(status: number, seconds: number, bytes: number): void {
    const cell = this.cells[status] ?? this.open(status);
    let bucket = 0;
    while (bucket < BOUNDS.length && seconds > BOUNDS[bucket]!) bucket++;
    cell[bucket]!++;
    cell[BOUNDS.length + 1]! += seconds;
    this.sentBytes += bytes;
  }

  /** Exports a status from now on, starting at 0, so that rates see its first increase. */
  open(status: number): Float64Array {
    const cell = new Float64Array(BOUNDS.length + 2);
    this.cells[status] = cell;
    return cell;
  }
}

/**
 * Measures durations of requests in seconds, by route, method and status. It counts in plain arrays, which are exported
 * at a scrape: a labelled histogram of prom-client costs 330 ns per request.
 */
export class RequestHistogram {
  readonly name: string;
  readonly #help: string;
  readonly #counters = ROUTES.flatMap((route) => METHODS.map((method) => new RequestCounter(route, method)));

  constructor(registry: Registry, name: string, help: string) {
    this.name = name;
    this.#help = help;
    // the registry's type lists prom-client's classes only
    registry.registerMetric(this as never);
    for (const route of ROUTES)
      if (route !== 'other')
        for (const status of EXPECTED_STATUSES)
          this.at(route, route.startsWith('batch') ? 'POST' : 'GET').open(status);
  }

  /** Returns the counter of a route and method. Callers look it up once, not per request. */
  at(route: Route, method: CountedMethod): RequestCounter {
    return this.#counters.find((counter) => counter.route === route && counter.method === method)!;
  }

  sentBytes(route: Route): number {
    let bytes = 0;
    for (const counter of this.#counters) if (counter.route === route) bytes += counter.sentBytes;
    return bytes;
  }

  /** For prom-client's registry. */
  get() {
    const samplesOf = (labels: object, cell: Float64Array) => {
      let count = 0;
      const buckets = [...BOUNDS, '+Inf'].map((le, i) => {
        count += cell[i]!;
        return { metricName: `${this.name}_bucket`, labels: { ...labels, le }, value: count };
      });
      const sum = { metricName: `${this.name}_sum`, labels, value: cell.at(-1)! };
      return [...buckets, sum, { metricName: `${this.name}_count`, labels, value: count }];
    };
    // holes of the array are left out
    const values = this.#counters.flatMap(({ route, method, cells }) =>
      cells.flatMap((cell, status) =>
        samplesOf({ http_route: HTTP_ROUTES[route], method, status: String(status) }, cell),
      ),
    );
    return { name: this.name, help: this.#help, type: 'histogram', aggregator: 'sum' as const, values };
  }
}
