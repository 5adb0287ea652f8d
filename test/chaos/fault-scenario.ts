import { setTimeout as sleep } from 'node:timers/promises';
import { inForm } from '../support/form.ts';
import { now } from './load.ts';
import type { Sample } from './sample.ts';
import { type Fixture, isNormal } from './service-fixture.ts';

export interface Fault {
  /** as it stands in the table */
  name: string;
  /** how long it lasts in each form, ms */
  shortMs: number;
  longMs: number;
  /** what must be so before it begins */
  prepare?: () => Promise<unknown>;
  begin: () => Promise<unknown> | unknown;
  /** the repair; the fault is over when it resolves */
  end: () => Promise<unknown> | unknown;
  /** the one whose use is waited for afterwards */
  dependency?: 'redis' | 'postgres';
}

/** What happened in a fault and after it; times in ms. */
export interface FaultScenario {
  fault: string;
  lastedMs: number;
  /** due while it lasted */
  during: Sample[];
  /** due from its beginning until all was normal again */
  all: Sample[];
  /** from the repair until the service's metrics show that it uses the dependency */
  usedAgainMs: number | undefined;
  /** from the repair until the first answer that needs PostgreSQL */
  firstColdMs: number;
  /** from the repair until the last request that was not answered as ever */
  normalMs: number;
  /** how late the load's own process was at worst: what the machine, and not the service, was slow by */
  loadLateMs: number;
  /** what was wrong or lost, in words */
  faults: string[];
}

/** By then the breakers have found out, whose deadline is 500 ms for PostgreSQL. */
const FOUND_OUT_MS = 800;

/** What was due in the fault when the breakers had found out about it. */
export function foundOut({ during }: FaultScenario): Sample[] {
  const fromMs = during[0]!.dueMs + FOUND_OUT_MS;
  return during.filter(({ dueMs }) => dueMs >= fromMs);
}

/** Brings a fault about under the load, repairs it, and tells what happened until all was normal again. */
export async function run(
  fixture: Fixture,
  { name, shortMs, longMs, prepare, begin, end, dependency }: Fault,
): Promise<FaultScenario> {
  await prepare?.();
  await fixture.calm();
  const beganMs = now();
  await begin();
  await sleep(inForm(shortMs, longMs));
  await end();
  const endedMs = now();
  const usedAgainMs = dependency && (await untilUsed(fixture, dependency, endedMs));
  await fixture.calm();
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

/** Waits until every process has the dependency back and a worker was answered by it. */
async function untilUsed(fixture: Fixture, tier: 'redis' | 'postgres', sinceMs: number): Promise<number> {
  const { service } = fixture;
  const answers = async () =>
    (await service.metric('hotel_api_cache_answers_total', { tier, answer: 'hit' })) +
    (await service.metric('hotel_api_cache_answers_total', { tier, answer: 'absent' }));
  const before = await answers();
  for (;;) {
    const open = await service.metric('hotel_api_breaker_open', { dependency: tier });
    if (open === 0 && (await answers()) > before) return now() - sinceMs;
    if (now() - sinceMs > 10_000) return Infinity;
    await sleep(20);
  }
}
