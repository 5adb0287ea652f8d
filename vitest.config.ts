import { defineConfig } from 'vitest/config';
import { SYSTEM_TESTS, withServers } from './test/support/projects.ts';

/** `npm test`: all that needs nothing but Node. */
export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['src/**/*.test.ts'], sequence: { groupOrder: 1 } } },
      {
        test: {
          name: 'service',
          include: ['test/**/*.test.ts'],
          exclude: SYSTEM_TESTS,
          ...withServers,
          // each file runs services of several processes: more at once only wait for each other
          maxWorkers: 3,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
