import { performance } from 'node:perf_hooks';
import type { Registry } from 'prom-client';
import { Histogram } from './histogram.ts';
import { CallbackMetric, register } from './metric.ts';

const DELAY_BOUNDS = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2] as const;
/** How often the delay is sampled: in an idle process 50 timers a second take 0.35% of a core. */
const SAMPLE_MS = 50;

/**
 * Adds what every process says of itself: processor time, memory, and how its event loop fares. `worker`: its number
 * from 1, which whoever takes its place gets too, or `primary`. A loop is in use for as many seconds a second as a
 * rate of its active seconds says.
 */
export function watchProcess(registry: Registry, worker: string): void {
  const labels = { worker };
  const read = (name: string, help: string, type: 'counter' | 'gauge', value: () => number) =>
    register(registry, new CallbackMetric(name, help, type, () => [{ labels, value: value() }]));
  read('hotel_api_cpu_seconds_total', 'CPU time, user and system', 'counter', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  read('hotel_api_memory_resident_bytes', 'Resident memory', 'gauge', () => process.memoryUsage.rss());
  read(
    'hotel_api_event_loop_active_seconds_total',
    'Time that the event loop was busy',
    'counter',
    () => performance.eventLoopUtilization().active / 1000,
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
