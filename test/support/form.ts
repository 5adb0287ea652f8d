import { inject, type TestContext } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** short: as part of all tests; long: faults last, and clients are as many, as the promise says */
    form: 'short' | 'long';
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

/** True where promises in milliseconds are judged: the long form has the machine for itself. */
export const judgesTimes = inject('form') === 'long';

/** A promise in milliseconds. In the short form it is a bound that only a hang exceeds. */
export const promisedMs = (ms: number): number => (judgesTimes ? ms : Math.max(20 * ms, 20_000));

/** The value for the form that runs. */
export const inForm = <T>(short: T, long: T): T => (inject('form') === 'long' ? long : short);

/** Puts what was measured into the table; a test that is measured again replaces its row. */
export function survived(
  context: TestContext,
  table: Row['table'],
  fault: string,
  measured: Row['measured'],
): void {
  context.task.meta.survived = { table, fault, measured };
}
