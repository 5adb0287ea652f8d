import { relative } from 'node:path';
import { type RunnerTask, type RunnerTestFile, type RunnerTestSuite, TestRunner } from 'vitest';
import { MISSING } from './needs.ts';

/** Test runner that skips a file, its hooks included, if its `needs(…)` are not met. */
export default class SkippingRunner extends TestRunner {
  override async onBeforeRunSuite(suite: RunnerTestSuite): Promise<void> {
    const lacked = (globalThis as Record<symbol, unknown>)[MISSING];
    if (lacked !== undefined && isFile(suite)) {
      console.warn(`Not tested: ${relative(process.cwd(), suite.filepath)}: ${lacked}`);
      skip(suite);
    }
    await super.onBeforeRunSuite(suite);
  }
}

const isFile = (suite: RunnerTestSuite): suite is RunnerTestFile => 'filepath' in suite;

function skip(task: RunnerTask): void {
  task.mode = 'skip';
  if (task.type === 'suite') for (const child of task.tasks) skip(child);
}
