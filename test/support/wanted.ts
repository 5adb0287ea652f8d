import { findProgram } from '../../src/servers/programs.ts';

/**
 * Whether tests are to be skipped because something is missing here: never in CI, where it is an error. `sentence` says
 * what is not tested and what to install.
 */
export function isSkipped(isMissing: boolean, sentence: string): boolean {
  if (!isMissing) return false;
  if (process.env.CI) throw new Error(`in CI every test runs. ${sentence}`);
  console.warn(sentence);
  return true;
}

/** The same for tests that want programs; `what` names them as "Not tested: …" would. */
export async function isSkippedWithout(what: string, ...programs: string[]): Promise<boolean> {
  const found = await Promise.all(programs.map((program) => findProgram([program])));
  const missing = programs.filter((_, i) => found[i] === undefined);
  return isSkipped(
    missing.length > 0,
    `Not tested: ${what}. These are not installed: ${missing.join(', ')} (README, Development, says of what package).`,
  );
}
