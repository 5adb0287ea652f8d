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

/** A method as it is counted. */
export type CountedMethod = (typeof METHODS)[number];

/**
 * A Prometheus histogram of request durations by route, method and status. Requests are counted in plain arrays,
 * which are handed over when they are scraped: a labelled histogram of prom-client costs microseconds a request.
 */
export class RequestHistogram {
  readonly name: string;
  readonly help: string;
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  /** by route, method and status: the count of each bucket, one more for those past the last, and the sum */
  readonly #cells = new Map<number, Float64Array>();

  constructor(name: string, help: string) {
    this.name = name;
    this.help = help;
  }

  /** Counts one answered request. */
  observe(route: Route, method: CountedMethod, status: number, seconds: number): void {
    const place = (ROUTES.indexOf(route) * METHODS.length + METHODS.indexOf(method)) * STATUSES + status;
    let cell = this.#cells.get(place);
    if (cell === undefined) {
      cell = new Float64Array(BOUNDS.length + 2);
      this.#cells.set(place, cell);
    }
    let bucket = 0;
    while (bucket < BOUNDS.length && seconds > BOUNDS[bucket]!) bucket++;
    cell[bucket]!++;
    cell[BOUNDS.length + 1]! += seconds;
  }

  /** The samples in the form of prom-client's metrics. */
  get(): { name: string; help: string; type: string; aggregator: string; values: object[] } {
    const values: object[] = [];
    for (const [place, cell] of this.#cells) {
      const labels = {
        route: ROUTES[Math.floor(place / STATUSES / METHODS.length)],
        method: METHODS[Math.floor(place / STATUSES) % METHODS.length],
        status: String(place % STATUSES),
      };
      let count = 0;
      for (let i = 0; i <= BOUNDS.length; i++) {
        count += cell[i]!;
        const le = i < BOUNDS.length ? BOUNDS[i] : '+Inf';
        values.push({ metricName: `${this.name}_bucket`, labels: { ...labels, le }, value: count });
      }
      values.push({ metricName: `${this.name}_sum`, labels, value: cell[BOUNDS.length + 1] });
      values.push({ metricName: `${this.name}_count`, labels, value: count });
    }
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values };
  }
}
