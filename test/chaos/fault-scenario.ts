import { setTimeout as sleep } from 'node:timers/promises';
import { shortOrLong } from '../support/run-length.ts';
import type { Sample } from './sample.ts';
import { now } from './sample.ts';
import { type Fixture, isNormal } from './service-fixture.ts';

export interface Fault {
  /** name in the table */
  name: string;
  /** duration in a short and in a long run, ms */
  shortMs: number;
  longMs: number;
  /** preparation before the fault */
  prepare?: () => Promise<unknown>;
  begin: () => Promise<unknown> | unknown;
  /** the repair; the fault has ended when it resolves */
  end: () => Promise<unknown> | unknown;
  /** dependency whose use is awaited afterwards */
  dependency?: 'redis' | 'postgres';
}

/** Requests during a fault and after it; times in ms. */
export interface FaultScenario {
  fault: string;
  lastedMs: number;
  /** due during the fault */
  during: Sample[];
  /** with their response before the repair began */
  beforeRepair: Sample[];
  /** due from its beginning until the service was normal again */
  all: Sample[];
  /** from the repair until the service's metrics show use of the dependency */
  usedAgainMs: number | undefined;
  /** from the repair until the first response that needs PostgreSQL */
  firstColdMs: number;
  /** from the repair until the last abnormal response */
  normalMs: number;
  /** maximum delay of the load generator: the machine's part in the delays */
  loadLateMs: number;
  /** descriptions of wrong and lost requests */
  faults: string[];
}

/** Time for the circuit breakers to open; the deadline is 500 ms for PostgreSQL. */
const DETECTED_MS = 800;

/** Returns the requests due in the fault after the circuit breakers had opened. */
export function afterDetection({ during }: FaultScenario): Sample[] {
  const fromMs = during[0]!.dueMs + DETECTED_MS;
  return during.filter(({ dueMs }) => dueMs >= fromMs);
}

/** Runs a fault under the load, repairs it, and reports until the service is normal again. */
export async function run(
  fixture: Fixture,
  { name, shortMs, longMs, prepare, begin, end, dependency }: Fault,
): Promise<FaultScenario> {
  await prepare?.();
  await fixture.untilNormal();
  const beganMs = now();
  await begin();
  await sleep(shortOrLong(shortMs, longMs));
  const repairBeganMs = now();
  await end();
  const endedMs = now();
  const usedAgainMs = dependency && (await untilUsed(fixture, dependency, endedMs));
  await fixture.untilNormal();
  const all = fixture.load.between(beganMs, now());
  const during = all.filter(({ dueMs }) => dueMs < endedMs);
  const after = all.filter(({ dueMs }) => dueMs >= endedMs);
  const cold = all.find(
    ({ kind, outcome, dueMs, tookMs }) =>
      (kind === 'cold' || kind === 'unknown') && outcome === 'ok' && dueMs + tookMs >= endedMs,
  );
  const odd = after.filter((sample) => !isNormal(sample));
  return {
    fault: name,
    lastedMs: endedMs - beganMs,
    during,
    beforeRepair: during.filter(({ dueMs, tookMs }) => dueMs + tookMs < repairBeganMs),
    all,
    usedAgainMs,
    firstColdMs: cold ? cold.dueMs + cold.tookMs - endedMs : Infinity,
    normalMs: odd.reduce((last, { dueMs, tookMs }) => Math.max(last, dueMs + tookMs - endedMs), 0),
    loadLateMs: fixture.load.latest(beganMs, now()),
    faults: fixture.load.faults
      .filter(({ atMs }) => atMs >= beganMs)
      .map(({ what }) => what)
      .slice(0, 5),
  };
}

/** Resolves when every process has closed its circuit breaker and a worker has used the dependency. */
async function untilUsed(fixture: Fixture, tier: 'redis' | 'postgres', sinceMs: number): Promise<number> {
  const { service } = fixture;
  const answers = async () =>
    (await service.metric('hotel_api_cache_lookups_total', { tier, result: 'hit' })) +
    (await service.metric('hotel_api_cache_lookups_total', { tier, result: 'absent' }));
  const before = await answers();
  for (;;) {
    const open = await service.metric('hotel_api_breaker_open', { dependency: tier });
    if (open === 0 && (await answers()) > before) return now() - sinceMs;
    if (now() - sinceMs > 10_000) return Infinity;
    await sleep(20);
  }
}
