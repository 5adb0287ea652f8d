import { relative } from 'node:path';
import { type RunnerTask, type RunnerTestFile, type RunnerTestSuite, TestRunner } from 'vitest';
import { MISSING } from './needs.ts';

/** Test runner that skips a file, its hooks included, if its `needs(…)` are not met. */
export default class SkippingRunner extends TestRunner {
  override async onBeforeRunSuite(suite: RunnerTestSuite): Promise<void> {
    const all = globalThis as Record<symbol, unknown>;
    if (all[MISSING] !== undefined && isFile(suite)) {
      console.warn(`Not tested: ${relative(process.cwd(), suite.filepath)}: ${all[MISSING]}`);
      skip(suite);
      // the next file may have the same globals
      delete all[MISSING];
    }
    await super.onBeforeRunSuite(suite);
  }
}

const isFile = (suite: RunnerTestSuite): suite is RunnerTestFile => 'filepath' in suite;

function skip(task: RunnerTask): void {
  task.mode = 'skip';
  if (task.type === 'suite') for (const child of task.tasks) skip(child);
}
