import { performance } from 'node:perf_hooks';
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import { onTick } from '../lib/clock.ts';
import { readAtScrape } from './read-at-scrape.ts';

const DELAY_BOUNDS = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2];
/**
 * Metrics of the event loop by prom-client, which are left out. Its delays contain the interval of sampling, and cover the
 * time since the last scrape, whichever Prometheus sent it. Its utilization lacks the label of the process.
 */
const OF_LOOP = /^nodejs_eventloop_/;
/** Interval of their samples, each of which would wake an idle process. */
const NEVER_MS = 2 ** 31 - 1;

/**
 * Registers the event-loop metrics of a process. `worker`: its number from 1, which a replacement keeps, or `primary`. The
 * rate of the active seconds is the utilisation of the loop. Returns a function that reads all metrics of the process: those
 * of the registry, and `process_*` and `nodejs_*` of prom-client, as dashboards of the community know them. These are read for a
 * scrape alone: some list files of /proc.
 */
export function watchProcess(registry: Registry, worker: string): () => Promise<object[]> {
  const ofWorker = { worker };
  readAtScrape(registry, Counter, ofWorker, {
    hotel_api_event_loop_active_seconds_total: [
      'Time that the event loop was busy',
      () => performance.eventLoopUtilization().active / 1000,
    ],
  });
  const delay = new Histogram({
    name: 'hotel_api_event_loop_delay_seconds',
    help: 'Delay of timers on the event loop',
    labelNames: ['worker'],
    buckets: DELAY_BOUNDS,
    registers: [registry],
  });
  delay.zero({ worker });
  onTick((lateMs) => delay.observe({ worker }, lateMs / 1000));
  const defaults = new Registry();
  collectDefaultMetrics({
    register: defaults,
    labels: { worker },
    eventLoopMonitoringPrecision: NEVER_MS,
    eventLoopUtilizationTimeout: NEVER_MS,
  });
  return async () => {
    const own = await registry.getMetricsAsJSON();
    const usual = (await defaults.getMetricsAsJSON()).filter(({ name }) => !OF_LOOP.test(name));
    // the processes differ in their label: none of the series is omitted or averaged
    return [...own, ...usual.map((metric) => ({ ...metric, aggregator: 'sum' }))];
  };
}
