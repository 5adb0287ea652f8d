import { performance } from 'node:perf_hooks';
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import { onTick } from '../lib/clock.ts';

const DELAY_BOUNDS = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2];
/** Interval of the samples of prom-client. Each one wakes an idle process, and interrupts a busy one on the same core. */
const SAMPLE_MS = 250;

/** Metrics of the delays that were sampled since the last scrape. */
const LAG = /^nodejs_eventloop_lag_(?!seconds$)/;
/** Those that Node returns with the interval of sampling added. */
const WITH_INTERVAL = /_(min|max|mean|p\d+)_seconds$/;

/**
 * Registers the event-loop metrics of a process. `worker`: its number from 1, which a replacement keeps, or `primary`. The
 * rate of the active seconds is the utilisation of the loop.
 */
export function watchProcess(registry: Registry, worker: string): void {
  const registers = [registry];
  new Counter({
    name: 'hotel_api_event_loop_active_seconds_total',
    help: 'Time that the event loop was busy',
    labelNames: ['worker'],
    registers,
    collect() {
      this.reset();
      this.inc({ worker }, performance.eventLoopUtilization().active / 1000);
    },
  });
  const delay = new Histogram({
    name: 'hotel_api_event_loop_delay_seconds',
    help: 'Delay of timers on the event loop',
    labelNames: ['worker'],
    buckets: DELAY_BOUNDS,
    registers,
  });
  delay.zero({ worker });
  onTick((lateMs) => delay.observe({ worker }, lateMs / 1000));
}

/**
 * Returns a function that reads the metrics `process_*` and `nodejs_*` of prom-client for this process, as dashboards of
 * the community know them. They are read for a scrape alone: some list files of /proc.
 */
export function defaultMetrics(worker: string): () => Promise<object[]> {
  const registry = new Registry();
  collectDefaultMetrics({
    register: registry,
    labels: { worker },
    eventLoopMonitoringPrecision: SAMPLE_MS,
    eventLoopUtilizationTimeout: SAMPLE_MS,
  });
  let lags: object[] = [];
  return async () => {
    // the processes differ in their label: none of the series is omitted or averaged
    const metrics = (await registry.getMetricsAsJSON()).map((metric) => ({ ...metric, aggregator: 'sum' }));
    const isLag = ({ name }: { name: string }) => LAG.test(name);
    // the registry changes its objects at the next scrape
    const found = structuredClone(metrics.filter(isLag));
    // without a sample since the last scrape, the mean is NaN and the minimum 292 years: the last values are repeated
    if (!found.some(({ values }) => values.some(({ value }) => Number.isNaN(value))))
      lags = found.map((metric) => (WITH_INTERVAL.test(metric.name) ? withoutInterval(metric) : metric));
    return [...metrics.filter((metric) => !isLag(metric)), ...lags];
  };
}

/** Subtracts the interval of sampling from the values. */
function withoutInterval<Metric extends { values: { value: number }[] }>(metric: Metric): Metric {
  for (const sample of metric.values) sample.value = Math.max(0, sample.value - SAMPLE_MS / 1000);
  return metric;
}
