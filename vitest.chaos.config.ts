import { defineConfig } from 'vitest/config';

/** The long form of the chaos tests: faults last as long as is promised, and a table is written. */
export default defineConfig({
  test: {
    include: ['test/chaos/*.test.ts', 'test/hostile/*.test.ts'],
    provide: { chaos: 'long' },
    reporters: ['default', './test/chaos/table.ts'],
    globalSetup: 'test/support/servers.ts',
    setupFiles: 'test/support/setup.ts',
    // nothing else is to take the processors
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 60_000,
  },
});
