import { missingPrograms, packagesOf } from './programs.ts';

/** Reports the missing programs of the system tests at the start. In CI that is an error. */
export default async function reportMissing(): Promise<void> {
  const missing = await missingPrograms();
  if (missing.length === 0) return;
  const sentence = `Not installed: ${missing.join(', ')} (Debian: ${packagesOf(missing).join(' ')}).`;
  if (process.env.CI) throw new Error(`${sentence} In CI every test runs.`);
  console.warn(`${sentence} Tests that need them are skipped.`);
}
