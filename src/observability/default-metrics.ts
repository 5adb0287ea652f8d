import { collectDefaultMetrics, Registry } from 'prom-client';

/** How often Node samples the delay of the event loop for `nodejs_eventloop_lag_*`, in ms: by default, 100 times a second. */
const LAG_EVERY_MS = 50;

/**
 * The metrics `process_*` and `nodejs_*` of prom-client, as dashboards of the community know them, for one process.
 * They are read for a scrape alone: some list files of /proc.
 */
export class DefaultMetrics {
  readonly #registry = new Registry();

  /** `worker`: the number of the worker, or `primary`. */
  constructor(worker: string) {
    collectDefaultMetrics({
      register: this.#registry,
      labels: { worker },
      eventLoopMonitoringPrecision: LAG_EVERY_MS,
    });
  }

  async read(): Promise<object[]> {
    const metrics = await this.#registry.getMetricsAsJSON();
    // the processes differ in their label: none of the series is omitted or averaged
    return metrics.map((metric) => ({ ...metric, aggregator: 'sum' }));
  }
}
