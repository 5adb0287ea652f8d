import { readFileSync } from 'node:fs';
import { git, type Origin } from './origin.ts';

const RESULTS = new URL('results/', import.meta.url);
/** What each file of results measures. */
const SERVICE = ['src', ':!src/**/*.test.ts', ':!src/cli', ':!src/demo', ':!src/api-docs'];
const MEASURED = { latest: SERVICE, sizing: [...SERVICE, 'sql'] };

/** Prints how old each file of results is. Returns true if none is older than the last change of what it measures. */
export function checkAge(): boolean {
  const old = Object.entries(MEASURED).filter(([name, paths]) => {
    const { at, commit }: Origin = JSON.parse(readFileSync(new URL(`${name}.json`, RESULTS), 'utf8'));
    const since = changesSince(commit, paths);
    const age = since === undefined ? 'of an unknown commit' : `of ${commit}, ${since} changes since`;
    console.log(`bench/results/${name}.json: ${at.slice(0, 10)}, ${age}`);
    return since !== 0;
  });
  if (old.length > 0) console.error('Measure again: npm run bench, npm run bench -- sizing');
  return old.length === 0;
}

/** Returns the number of commits that have changed these paths; undefined if the commit is unknown. */
function changesSince(commit: string, paths: string[]): number | undefined {
  try {
    return Number(git('rev-list', '--count', `${commit}..HEAD`, '--', ...paths));
  } catch {
    return undefined;
  }
}
