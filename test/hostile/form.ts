import { inject, type TestContext } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** short: as part of all tests; long: as much as is promised, by the configuration of the chaos tests */
    chaos: 'short' | 'long';
  }
}

/** The value for the form that runs. */
export const inForm = <T>(short: T, long: T): T => (inject('chaos') === 'long' ? long : short);

/** Puts what was measured into the table of what was survived. */
export function survived(
  context: TestContext,
  client: string,
  measured: Record<string, string | number>,
): void {
  Object.assign(context.task.meta, { survived: { table: 'hostile clients', fault: client, measured } });
}
