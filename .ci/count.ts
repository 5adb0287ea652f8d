import { existsSync, readFileSync } from 'node:fs';

/** What vitest's JSON reporter says of one file. */
interface File {
  name: string;
  status: string;
  assertionResults: { status: string }[];
}

/** A run that ended before it could report has failed, whatever it ran. */
const NOTHING: File = { name: 'the run itself', status: 'failed', assertionResults: [] };

function read(report: string): File[] {
  const text = existsSync(report) ? readFileSync(report, 'utf8') : '';
  return text ? JSON.parse(text).testResults : [NOTHING];
}

const count = ({ assertionResults }: File, status: string) =>
  assertionResults.filter((test) => test.status === status).length;

/** A file that fails as a whole, without a failed test, counts as one. */
const failuresOf = (file: File) => count(file, 'failed') || (file.status === 'failed' ? 1 : 0);

// prints the sum of the reports that are named: "N passed, N failed"
const files = process.argv.slice(2).flatMap(read);
const sum = (of: (file: File) => number) => files.reduce((total, file) => total + of(file), 0);
console.log(`${sum((file) => count(file, 'passed'))} passed, ${sum(failuresOf)} failed`);
