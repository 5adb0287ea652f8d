import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';

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

const pathsOf = (files: File[]) => files.map(({ name }) => relative(process.cwd(), name));

const [wanted, all, again] = process.argv.slice(2) as [string, string, string | undefined];
const first = read(all);
const failed = first.filter((file) => failuresOf(file) > 0);
if (wanted === 'files') {
  for (const path of pathsOf(failed.filter((file) => file !== NOTHING))) console.log(path);
} else {
  const second = again !== undefined && existsSync(again) ? read(again) : undefined;
  // a file that ran twice counts as it ended
  const files = second ? [...first.filter((file) => !failed.includes(file)), ...second] : first;
  if (second) console.log(`failed at first: ${pathsOf(failed).join(', ')}`);
  const sum = (of: (file: File) => number) => files.reduce((total, file) => total + of(file), 0);
  const failures = sum(failuresOf);
  console.log(`${sum((file) => count(file, 'passed'))} passed, ${failures} failed`);
  process.exitCode = failures > 0 ? 1 : 0;
}
