import { setTimeout as sleep } from 'node:timers/promises';
import { inject, type TestContext, vi } from 'vitest';
import { now } from './load.ts';
import type { Sample } from './sample.ts';
import { isNormal, type Stand } from './stand.ts';
import { failures, tally } from './tally.ts';

// a fault may be tried three times
vi.setConfig({ testTimeout: 120_000 });

declare module 'vitest' {
  interface ProvidedContext {
    /** short: as part of all tests; long: faults last as long as the promise says */
    chaos: 'short' | 'long';
  }
  interface TaskMeta {
    survived?: Row;
  }
}

/** A row of the table of what was survived: the fault and what was measured, by the heads of the columns. */
export interface Row {
  table: 'faults' | 'load' | 'hostile clients';
  fault: string;
  measured: Record<string, string | number>;
}

/** The value for the form that runs. */
export const inForm = <T>(short: T, long: T): T => (inject('chaos') === 'long' ? long : short);

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
export interface Course {
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

/** The machine stood still for so long: what was measured meanwhile says nothing of the service. */
const STOOD_STILL_MS = 60;
/** What others do on the machine can make anything slow; what is slow by itself is so each time. */
const ATTEMPTS = 3;

/** Sentences on what did not hold; what is `slow` may be the machine's fault. */
export interface Verdict {
  failed: string[];
  slow: string[];
}

type Claim = [holds: boolean, otherwise: string];

/** The claims that do not hold. */
export function verdict(onAnswers: Claim[], onTimes: Claim[] = []): Verdict {
  const broken = (claims: Claim[]) => claims.filter(([holds]) => !holds).map(([, otherwise]) => otherwise);
  return { failed: broken(onAnswers), slow: broken(onTimes) };
}

/**
 * Brings a fault about under the load and lets `judge` say what did not hold. The course goes into the table, and the
 * test fails with the sentences of `judge`. The short form, which runs beside other tests, tries a fault again where
 * only times did not hold, or the machine itself stood still meanwhile.
 */
export async function survive(
  context: TestContext,
  stand: Stand,
  fault: Fault,
  judge: (course: Course) => Verdict,
): Promise<Course> {
  for (let attempt = 1; ; attempt++) {
    const course = await run(stand, fault);
    const { failed, slow } = judge(course);
    const excused = failed.length === 0 || course.loadLateMs > STOOD_STILL_MS;
    if (failed.length + slow.length > 0 && excused && attempt < inForm(ATTEMPTS, 1)) continue;
    context.task.meta.survived = { table: 'faults', fault: fault.name, measured: measuredOf(course) };
    if (failed.length + slow.length > 0) {
      const late = `the load was late by ${Math.round(course.loadLateMs)} ms`;
      const told = [...failed, ...slow, late, ...course.faults, ...whenOf(course)];
      throw new Error(`${fault.name}: ${told.join('; ')}\n${stand.notable().join('\n')}`);
    }
    return course;
  }
}

async function run(
  stand: Stand,
  { name, shortMs, longMs, prepare, begin, end, dependency }: Fault,
): Promise<Course> {
  await prepare?.();
  await stand.calm();
  const beganMs = now();
  await begin();
  await sleep(inForm(shortMs, longMs));
  await end();
  const endedMs = now();
  const usedAgainMs = dependency && (await untilUsed(stand, dependency, endedMs));
  await stand.calm();
  const all = stand.load.between(beganMs, now());
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
    loadLateMs: stand.load.latest(beganMs, now()),
    faults: stand.load.faults
      .filter(({ atMs }) => atMs >= beganMs)
      .map(({ what }) => what)
      .slice(0, 5),
  };
}

/** Waits until every worker has the dependency back and one of them was answered by it. */
async function untilUsed(stand: Stand, tier: 'redis' | 'postgres', sinceMs: number): Promise<number> {
  const answers = async () =>
    (await stand.metric('hotel_api_cache_answers_total', { tier, answer: 'hit' })) +
    (await stand.metric('hotel_api_cache_answers_total', { tier, answer: 'absent' }));
  const before = await answers();
  for (;;) {
    const open = await stand.metric('hotel_api_breaker_open', { dependency: tier });
    if (open === 0 && (await answers()) > before) return now() - sinceMs;
    if (now() - sinceMs > 10_000) return Infinity;
    await sleep(20);
  }
}

/** When requests ended otherwise than well, after the beginning. */
function whenOf({ all, lastedMs }: Course): string[] {
  const beganMs = all[0]?.dueMs ?? 0;
  const odd = all.filter(({ outcome }) => outcome !== 'ok');
  const told = Object.entries(Object.groupBy(odd, ({ kind, outcome }) => `${kind} ${outcome}`)).map(
    ([name, samples]) => {
      const range = (values: number[]) => `${ms(Math.min(...values))} to ${ms(Math.max(...values))}`;
      const due = samples!.map(({ dueMs }) => dueMs - beganMs);
      return `${due.length} ${name}, due ${range(due)}, after ${range(samples!.map(({ tookMs }) => tookMs))}`;
    },
  );
  return [`it lasted ${ms(lastedMs)}`, ...told];
}

function measuredOf(course: Course): Row['measured'] {
  const during = tally(course.during);
  const all = tally(course.all);
  return {
    lasted: seconds(course.lastedMs),
    requests: all.requests,
    'failed or wrong': failures(all),
    'refused (503)': all.unavailable,
    'p50 in it': ms(during.p50Ms),
    'p99 in it': ms(during.p99Ms),
    '503 after at most': all.unavailable === 0 ? '' : ms(all.unavailableMaxMs),
    'used again after': course.usedAgainMs === undefined ? '' : ms(course.usedAgainMs),
    'normal after': ms(course.normalMs),
  };
}

const ms = (value: number): string => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
const seconds = (value: number): string => `${(value / 1_000).toFixed(1)} s`;
