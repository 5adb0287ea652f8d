import type { Registry } from 'prom-client';

/** Value of a metric. `metricName` is set if it differs from the metric's name, as for a bucket. */
export interface Sample {
  metricName?: string;
  labels: Record<string, string | number>;
  value: number;
}

/** Interface of a metric that prom-client's registry reads at a scrape. */
export interface Metric {
  readonly name: string;
  get(): { name: string; help: string; type: string; aggregator: 'sum'; values: Sample[] };
}

/** Registers a custom metric. The registry's type lists prom-client's classes only. */
export function register<M extends Metric>(registry: Registry, metric: M): M {
  registry.registerMetric(metric as never);
  return metric;
}

/**
 * Exports a counter or gauge that is read at each scrape. A value that cannot be read is omitted: without a free
 * descriptor a process cannot read its memory.
 */
export class CallbackMetric implements Metric {
  readonly name: string;
  readonly #describe: { help: string; type: 'counter' | 'gauge' };
  readonly #read: () => Sample[];

  constructor(name: string, help: string, type: 'counter' | 'gauge', read: () => Sample[]) {
    this.name = name;
    this.#describe = { help, type };
    this.#read = read;
  }

  get() {
    return { name: this.name, ...this.#describe, aggregator: 'sum' as const, values: this.#values() };
  }

  #values(): Sample[] {
    try {
      return this.#read();
    } catch {
      return [];
    }
  }
}
