import { defineConfig } from 'vitest/config';
import { LONG_TESTS, withServers } from './test/support/projects.ts';

/** `npm run test:long`: faults last as long as is promised, promises in milliseconds are judged, a table is written. */
export default defineConfig({
  test: {
    include: LONG_TESTS,
    ...withServers,
    provide: { runLength: 'long' },
    reporters: ['default', './test/chaos/table.ts'],
    // the tests measure times: nothing else takes the processors
    fileParallelism: false,
  },
});
