import { defineConfig } from 'vitest/config';
import { withServers } from './test/support/projects.ts';

/** `npm run test:long`: faults last as long as is promised, promises in milliseconds are judged, a table is written. */
export default defineConfig({
  test: {
    include: ['test/{chaos,hostile}/*.test.ts'],
    ...withServers,
    provide: { form: 'long' },
    reporters: ['default', './test/chaos/table.ts'],
    // the tests measure times: nothing else takes the processors
    fileParallelism: false,
    testTimeout: 120_000,
  },
});
