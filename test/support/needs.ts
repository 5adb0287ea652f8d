import { inject } from 'vitest';
import { missingPrograms, type Program, packagesOf } from './programs.ts';

/** Requirement of a test: a shared Redis, a Redis program, superuser rights, or a program. */
type Need = 'redis' | 'redis-server' | 'root' | Program;

/** Key under which a file stores the message about missing requirements for the test runner, which skips the file. */
export const MISSING = Symbol.for('hotel-api: what the test file lacks');

/**
 * Declares at the top of a test file the requirements beside Node and PostgreSQL. If one is missing, the tests of the file
 * are skipped with a message. In CI that is an error.
 */
export async function needs(...names: Need[]): Promise<void> {
  const sentence = await sentenceOnMissing(names);
  if (sentence) (globalThis as Record<symbol, unknown>)[MISSING] = sentence;
}

/** Does the same for one block of a file: `describe.skipIf(await lacks('…'))`. */
export async function lacks(...names: Need[]): Promise<boolean> {
  const sentence = await sentenceOnMissing(names);
  if (sentence) console.warn(`Not tested in part: ${sentence}`);
  return sentence !== undefined;
}

async function sentenceOnMissing(names: Need[]): Promise<string | undefined> {
  const { redisUrl, redisProgram } = inject('servers');
  const said: string[] = [];
  if (names.includes('root') && process.getuid?.() !== 0) said.push('the test needs to be root');
  const found = { redis: redisUrl, 'redis-server': redisProgram };
  if (names.some((name) => name in found && !found[name as keyof typeof found]))
    said.push('there is no Redis');
  const isProgram = (name: Need): name is Program => !['redis', 'redis-server', 'root'].includes(name);
  const missing = await missingPrograms(names.filter(isProgram));
  if (missing.length > 0)
    said.push(`${missing.join(', ')} not installed (Debian: ${packagesOf(missing).join(' ')})`);
  if (said.length === 0) return undefined;
  if (process.env.CI) throw new Error(`In CI every test runs, but ${said.join('; ')}.`);
  return `${said.join('; ')}.`;
}
