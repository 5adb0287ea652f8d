import { Histogram } from './histogram.ts';

/** The routes by which requests are counted; `page` is what needs no key, `other` is every path and method that the contract does not know. */
export const ROUTES = [
  'list',
  'changes',
  'hotel',
  'hotel_by_channel',
  'hotel_by_registry',
  'batch_by_channel',
  'batch_by_registry',
  'page',
  'other',
] as const;
export type Route = (typeof ROUTES)[number];

/** Upper bounds of the buckets in seconds, from 100 µs up. */
const BOUNDS = [
  1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5,
] as const;
const METHODS = ['GET', 'HEAD', 'POST', 'other'] as const;
const STATUSES = 1000;
/** What alerts divide: these are exported before the first of them was answered. */
const EXPECTED_STATUSES = [200, 500, 503];

/** A method as it is counted. */
export type CountedMethod = (typeof METHODS)[number];

/** Counts the requests of one route and method. */
export class RequestCounter {
  readonly route: Route;
  readonly method: CountedMethod;
  readonly #histogram: RequestHistogram;
  /** by status */
  readonly #cells: Float64Array[] = [];
  #sentBytes = 0;

  constructor(histogram: RequestHistogram, route: Route, method: CountedMethod) {
    this.#histogram = histogram;
    this.route = route;
    this.method = method;
  }

  /** Bytes of the bodies of all answers. */
  get sentBytes(): number {
    return this.#sentBytes;
  }

  /** Counts an answered request; `bytes`: of the body as it was sent. */
  count(status: number, seconds: number, bytes: number): void {
    const cell = this.#cells[status] ?? this.open(status);
    this.#histogram.add(cell, seconds);
    this.#sentBytes += bytes;
  }

  /** Exports a status from now on. */
  open(status: number): Float64Array {
    const place = ROUTES.indexOf(this.route) * METHODS.length + METHODS.indexOf(this.method);
    const cell = this.#histogram.open(place * STATUSES + status);
    this.#cells[status] = cell;
    return cell;
  }
}

/** Durations of requests in seconds, by route, method and status. */
export class RequestHistogram extends Histogram {
  readonly #counters = ROUTES.flatMap((route) =>
    METHODS.map((method) => new RequestCounter(this, route, method)),
  );

  constructor(name: string, help: string) {
    super(name, help, BOUNDS, (place) => ({
      route: ROUTES[Math.floor(place / STATUSES / METHODS.length)]!,
      method: METHODS[Math.floor(place / STATUSES) % METHODS.length]!,
      status: String(place % STATUSES),
    }));
    for (const route of ROUTES)
      if (route !== 'other')
        for (const status of EXPECTED_STATUSES)
          this.at(route, route.startsWith('batch') ? 'POST' : 'GET').open(status);
  }

  /** Where the requests of a route and method are counted: to be looked up once, not at every request. */
  at(route: Route, method: CountedMethod): RequestCounter {
    return this.#counters.find((counter) => counter.route === route && counter.method === method)!;
  }

  /** Bytes of the bodies of a route's answers. */
  sentBytes(route: Route): number {
    let bytes = 0;
    for (const counter of this.#counters) if (counter.route === route) bytes += counter.sentBytes;
    return bytes;
  }
}
