import { inject, type TestContext } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** short: part of all tests; long: duration of faults and number of clients as in the guarantees */
    form: 'short' | 'long';
  }
  interface TaskMeta {
    survived?: Row;
  }
}

/** Row of the results table: the fault and the measurements, by column. */
export interface Row {
  table: 'faults' | 'load' | 'hostile clients';
  fault: string;
  measured: Record<string, string | number>;
}

/** True if promises in milliseconds are checked: the long form has the machine to itself. */
export const judgesTimes = inject('form') === 'long';

/** Returns a promise in milliseconds; in the short form a bound that only a hang exceeds. */
export const promisedMs = (ms: number): number => (judgesTimes ? ms : Math.max(20 * ms, 20_000));

/** Returns the value for the present form. */
export const inForm = <T>(short: T, long: T): T => (inject('form') === 'long' ? long : short);

/** Adds measurements to the table; a repeated test replaces its row. */
export function survived(
  context: TestContext,
  table: Row['table'],
  fault: string,
  measured: Row['measured'],
): void {
  context.task.meta.survived = { table, fault, measured };
}
