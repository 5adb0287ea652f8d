import { existsSync, readFileSync } from 'node:fs';

/** What vitest's JSON reporter says of one file. */
interface File {
  name: string;
  status: string;
  message: string;
  assertionResults: { status: string; fullName: string; failureMessages: string[] }[];
}

/** Bound on what is printed of one failure. */
const MAX_CHARACTERS = 2_000;

/** A run that ended before it could report has failed, whatever it ran. */
const NOTHING: File = { name: 'the run itself', status: 'failed', message: '', assertionResults: [] };

function read(report: string): File[] {
  const text = existsSync(report) ? readFileSync(report, 'utf8') : '';
  return text ? JSON.parse(text).testResults : [NOTHING];
}

/** A file that fails as a whole, without a failed test, counts as one failure. */
function failuresOf(file: File): string[] {
  const failed = file.assertionResults.filter(({ status }) => status === 'failed');
  const failures = failed.map(
    ({ fullName, failureMessages }) => `${fullName}\n${failureMessages.join('\n')}`,
  );
  return failures.length === 0 && file.status === 'failed' ? [file.message] : failures;
}

// prints the failures of the reports that are named, and their sum: "N passed, N failed"
const files = process.argv.slice(2).flatMap(read);
const failures = files.flatMap((file) => failuresOf(file).map((failure) => `${file.name}: ${failure}`));
for (const failure of failures) console.log(`failed: ${failure.slice(0, MAX_CHARACTERS)}\n`);
const passed = files.flatMap((file) => file.assertionResults.filter(({ status }) => status === 'passed'));
console.log(`${passed.length} passed, ${failures.length} failed`);
