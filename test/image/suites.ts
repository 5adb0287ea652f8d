import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { temporaryFolder } from '../support/cleanup.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Fewer show that the suites were not found. */
const MIN_PASSED = 230;

interface Assertion {
  status: string;
  fullName: string;
  failureMessages: string[];
}

interface Report {
  numPassedTests: number;
  testResults: { name: string; message: string; assertionResults: Assertion[] }[];
}

/**
 * Runs the suites of `IMAGE_TESTS` with services that are processes of the image, on servers of their own. Returns the tests and
 * files that failed, and why.
 */
export async function runSuites(image: {
  command: string[];
  env: Record<string, string>;
}): Promise<string[]> {
  const file = join(await temporaryFolder('hotel-api-suites-'), 'report.json');
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--config', 'vitest.system.config.ts'];
  // variables of the vitest that runs this test would reach the other one
  const own = Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_ENV|MODE|TEST$)/.test(name));
  const outcome = await promisify(execFile)(
    process.execPath,
    [...vitest, '--reporter=json', `--outputFile=${file}`],
    {
      cwd: ROOT,
      env: { ...Object.fromEntries(own), TEST_IMAGE: JSON.stringify(image) },
      maxBuffer: 64 * 1024 ** 2,
    },
  ).catch((error: Error & { stderr: string }) => error);
  const text = await readFile(file, 'utf8').catch(() => {
    throw new Error(`no report of the suites: ${outcome.stderr}`);
  });
  const { numPassedTests, testResults }: Report = JSON.parse(text);
  const failed = testResults.flatMap(({ name, message, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'failed')
      .map(
        ({ fullName, failureMessages }) =>
          `${name}: ${fullName}: ${failureMessages.join('; ').slice(0, 500)}`,
      )
      .concat(message ? `${name}: ${message}` : []),
  );
  console.info(`${numPassedTests} tests passed on the image.`);
  if (numPassedTests < MIN_PASSED) failed.push(`only ${numPassedTests} tests passed`);
  return outcome instanceof Error && failed.length === 0 ? [outcome.message] : failed;
}
