import type { TestContext } from 'vitest';
import { addResult, checksTimes, type Row } from '../support/run-length.ts';
import { type Fault, type FaultScenario, run } from './fault-scenario.ts';
import { countOutcomes, failures } from './outcome-counts.ts';
import type { Fixture } from './service-fixture.ts';

/** Stall of the machine from which deadlines may pass and queues fill, so that rejections are excused. */
export const STALL_MS = 60;

type Claim = [holds: boolean, otherwise: string];

/** Messages about claims that did not hold. */
export interface FaultResult {
  /** without excuse: wrong bytes, a cut connection, no response */
  failed: string[];
  /** excused by a stall of the machine: rejections and numbers of lost requests */
  rejected: string[];
  /** times, for which the machine may be the cause */
  slow: string[];
}

/** Returns the messages of claims that do not hold. */
function broken(claims: Claim[] = []): string[] {
  return claims.filter(([holds]) => !holds).map(([, otherwise]) => otherwise);
}

/** Sorts the broken claims by their possible excuse; see `FaultResult`. */
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
 * Runs a fault under the load, adds the scenario to the table, and fails with the messages of `check`. A short run, for
 * shared machines, does not check times, and no rejections after a stall of the machine.
 */
export async function survive(
  context: TestContext,
  fixture: Fixture,
  fault: Fault,
  check: (scenario: FaultScenario) => FaultResult,
): Promise<void> {
  const scenario = await run(fixture, fault);
  addResult(context, 'faults', fault.name, measuredOf(scenario));
  const { failed, rejected, slow } = check(scenario);
  const stalled = scenario.loadLateMs > STALL_MS;
  const said = checksTimes ? [...failed, ...rejected, ...slow] : [...failed, ...(stalled ? [] : rejected)];
  if (said.length === 0) return;
  const announced = [
    ...said,
    `the load was late by ${ms(scenario.loadLateMs)}`,
    ...scenario.faults,
    ...failureTimes(scenario),
  ];
  throw new Error(`${fault.name}: ${announced.join('; ')}\n${fixture.notable().join('\n')}`);
}

/** Returns when requests failed or were rejected after the beginning. */
function failureTimes({ all, lastedMs }: FaultScenario): string[] {
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
  const during = countOutcomes(scenario.during);
  const all = countOutcomes(scenario.all);
  return {
    lasted: `${(scenario.lastedMs / 1_000).toFixed(1)} s`,
    requests: all.requests,
    'failed or wrong': failures(all),
    'rejected (503)': all.unavailable,
    'p50 in it': ms(during.p50Ms),
    'p99 in it': ms(during.p99Ms),
    '503 after at most': all.unavailable === 0 ? '' : ms(all.unavailableMaxMs),
    'used again after': scenario.usedAgainMs === undefined ? '' : ms(scenario.usedAgainMs),
    'normal after': ms(scenario.normalMs),
  };
}

/** Formats a time in ms. */
export const ms = (value: number): string => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
