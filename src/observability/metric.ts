import type { Registry } from 'prom-client';

/** One value of a metric; `metricName` where it differs from the metric's own, as that of a bucket does. */
export interface Sample {
  metricName?: string;
  labels: Record<string, string | number>;
  value: number;
}

/** A metric as prom-client's registry reads it when it is scraped. */
export interface Metric {
  readonly name: string;
  get(): { name: string; help: string; type: string; aggregator: 'sum'; values: Sample[] };
}

/** Adds a metric of ours to a registry, whose type lists only those of prom-client. */
export function register<M extends Metric>(registry: Registry, metric: M): M {
  registry.registerMetric(metric as never);
  return metric;
}

/**
 * A counter or gauge that is read where it stands whenever it is scraped. What cannot be read has no value then: a
 * process without a free descriptor cannot even tell its memory.
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
