import type { TestContext } from 'vitest';
import { judgesTimes, type Row, survived } from '../support/form.ts';
import { type Fault, type FaultScenario, run } from './fault-scenario.ts';
import type { Fixture } from './service-fixture.ts';
import { counter, failures } from './tally.ts';

/** While the machine stands still for so long, who is asked gets no processor: deadlines pass, and queues fill. */
const STOOD_STILL_MS = 60;

type Claim = [holds: boolean, otherwise: string];

/** Sentences on what did not hold. */
export interface FaultResult {
  /** nothing excuses it: wrong bytes, a cut connection, no answer at all */
  failed: string[];
  /** a machine that stood still explains it: refusals, and how many were under way */
  rejected: string[];
  /** the machine may be what was slow */
  slow: string[];
}

/** Sentences on the claims that do not hold. */
function broken(claims: Claim[] = []): string[] {
  return claims.filter(([holds]) => !holds).map(([, otherwise]) => otherwise);
}

/** Judges claims, sorted by what could excuse them; see `Verdict`. */
export function decision(claims: {
  answers?: Claim[];
  errorReplies?: Claim[];
  times?: Claim[];
}): FaultResult {
  return {
    failed: broken(claims.answers),
    rejected: broken(claims.errorReplies),
    slow: broken(claims.times),
  };
}

/**
 * Brings a fault about under the load and lets `judge` say what did not hold. The course goes into the table, and the
 * test fails with the sentences of `judge`. The short form, for machines that others use too, does not judge times. It
 * does not judge refusals either where the machine stalled: deadlines pass then.
 */
export async function survive(
  context: TestContext,
  fixture: Fixture,
  fault: Fault,
  judge: (scenario: FaultScenario) => FaultResult,
): Promise<FaultScenario> {
  const scenario = await run(fixture, fault);
  survived(context, 'faults', fault.name, measuredOf(scenario));
  const { failed, rejected, slow } = judge(scenario);
  const stalled = scenario.loadLateMs > STOOD_STILL_MS;
  const said = judgesTimes ? [...failed, ...rejected, ...slow] : [...failed, ...(stalled ? [] : rejected)];
  if (said.length === 0) return scenario;
  const announced = [
    ...said,
    `the load was late by ${ms(scenario.loadLateMs)}`,
    ...scenario.faults,
    ...whenOf(scenario),
  ];
  throw new Error(`${fault.name}: ${announced.join('; ')}\n${fixture.notable().join('\n')}`);
}

/** When requests ended otherwise than well, after the beginning. */
function whenOf({ all, lastedMs }: FaultScenario): string[] {
  const beganMs = all[0]?.dueMs ?? 0;
  const odd = all.filter(({ outcome }) => outcome !== 'ok');
  const announced = Object.entries(Object.groupBy(odd, ({ kind, outcome }) => `${kind} ${outcome}`)).map(
    ([name, samples]) => {
      const range = (values: number[]) => `${ms(Math.min(...values))} to ${ms(Math.max(...values))}`;
      const due = samples!.map(({ dueMs }) => dueMs - beganMs);
      return `${due.length} ${name}, due ${range(due)}, after ${range(samples!.map(({ tookMs }) => tookMs))}`;
    },
  );
  return [`it lasted ${ms(lastedMs)}`, ...announced];
}

function measuredOf(scenario: FaultScenario): Row['measured'] {
  const during = counter(scenario.during);
  const all = counter(scenario.all);
  return {
    lasted: `${(scenario.lastedMs / 1_000).toFixed(1)} s`,
    requests: all.requests,
    'failed or wrong': failures(all),
    'refused (503)': all.unavailable,
    'p50 in it': ms(during.p50Ms),
    'p99 in it': ms(during.p99Ms),
    '503 after at most': all.unavailable === 0 ? '' : ms(all.unavailableMaxMs),
    'used again after': scenario.usedAgainMs === undefined ? '' : ms(scenario.usedAgainMs),
    'normal after': ms(scenario.normalMs),
  };
}

/** A time in ms, in words. */
export const ms = (value: number): string => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
