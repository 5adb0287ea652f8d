import { inject, type TestContext } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** short: part of all tests; long: duration of faults and number of clients as in the guarantees */
    runLength: 'short' | 'long';
  }
  interface TaskMeta {
    result?: Row;
  }
}

/** Row of the results table: the fault and the measurements, by column. */
export interface Row {
  table: 'faults' | 'load' | 'hostile clients';
  fault: string;
  measured: Record<string, string | number>;
}

/** True if promises in milliseconds are checked: the long run has the machine to itself. */
export const checksTimes = inject('runLength') === 'long';

/** Returns a promise in milliseconds; in a short run a bound that only a hang exceeds. */
export const promisedMs = (ms: number): number => (checksTimes ? ms : Math.max(20 * ms, 60_000));

/** Returns the value for the length of this run. */
export const shortOrLong = <T>(short: T, long: T): T => (inject('runLength') === 'long' ? long : short);

/** Adds measurements to the table; a repeated test replaces its row. */
export function addResult(
  context: TestContext,
  table: Row['table'],
  fault: string,
  measured: Row['measured'],
): void {
  context.task.meta.result = { table, fault, measured };
}
