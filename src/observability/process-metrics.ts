import { performance } from 'node:perf_hooks';
import type { Registry } from 'prom-client';
import { Histogram } from './histogram.ts';
import { CallbackMetric, register } from './metric.ts';

const DELAY_BOUNDS = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2] as const;
/** Sampling interval of the delay: in an idle process 50 timers per second take 0.35 % of a core. */
const SAMPLE_MS = 50;

/**
 * Registers the event-loop metrics of a process; default-metrics.ts registers the others. `worker`: its number from
 * 1, which a replacement keeps, or `primary`. The rate of the active seconds is the utilisation of the loop.
 */
export function watchProcess(registry: Registry, worker: string): void {
  const labels = { worker };
  register(
    registry,
    new CallbackMetric(
      'hotel_api_event_loop_active_seconds_total',
      'Time that the event loop was busy',
      'counter',
      () => [{ labels, value: performance.eventLoopUtilization().active / 1000 }],
    ),
  );
  const delay = register(
    registry,
    new Histogram(
      'hotel_api_event_loop_delay_seconds',
      'Delay of timers on the event loop',
      DELAY_BOUNDS,
      () => labels,
    ),
  );
  delay.open(0);
  let dueAtMs = performance.now() + SAMPLE_MS;
  setInterval(() => {
    const nowMs = performance.now();
    delay.count(0, Math.max(0, nowMs - dueAtMs) / 1000);
    dueAtMs = nowMs + SAMPLE_MS;
  }, SAMPLE_MS).unref();
}
