import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take the longest; the last file of a run has the machine to itself. */
const LONGEST = [
  ...['system/history', 'redis-cluster', 'mirrors', 'image', 'import'],
  // of npm test: most of their time is that of processes which start
  ...['cli/cli', 'formats', 'warm-up', 'service/start', 'races', 'cli/terminal'],
  ...['freshness/collections', 'service/metrics', 'cli/collections', 'faults/dependencies'],
];

/** Runs the longest files first, and the others as vitest orders them. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification) => {
      const place = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return place < 0 ? LONGEST.length : place;
    };
    const sorted = await super.sort(files);
    return sorted.toSorted((one, other) => placeOf(one) - placeOf(other));
  }
}
