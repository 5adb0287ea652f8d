import { Histogram } from './histogram.ts';

/** The routes by which requests are counted; `page` is what needs no key, `other` is every path and method that the contract does not know. */
export const ROUTES = [
  'list',
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

/** Durations of requests in seconds, by route, method and status. */
export class RequestHistogram extends Histogram {
  constructor(name: string, help: string) {
    super(name, help, BOUNDS, (place) => ({
      route: ROUTES[Math.floor(place / STATUSES / METHODS.length)]!,
      method: METHODS[Math.floor(place / STATUSES) % METHODS.length]!,
      status: String(place % STATUSES),
    }));
    for (const route of ROUTES)
      if (route !== 'other')
        for (const status of EXPECTED_STATUSES)
          this.open(placeOf(route, route.startsWith('batch') ? 'POST' : 'GET', status));
  }

  /** Counts one answered request. */
  observe(route: Route, method: CountedMethod, status: number, seconds: number): void {
    this.count(placeOf(route, method, status), seconds);
  }
}

// found faster than in an array
const ROUTE_PLACES = new Map(ROUTES.map((route, i) => [route, i * METHODS.length * STATUSES]));
const METHOD_PLACES = new Map(METHODS.map((method, i) => [method, i * STATUSES]));

function placeOf(route: Route, method: CountedMethod, status: number): number {
  return ROUTE_PLACES.get(route)! + METHOD_PLACES.get(method)! + status;
}
