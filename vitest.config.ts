import { defineConfig } from 'vitest/config';
import { HANG_MS, polling, SYSTEM_TESTS, withServers } from './test/support/projects.ts';

/** They read files and need no servers. */
const DOCUMENTS = 'test/documents/*.test.ts';
/** It runs in virtual time. */
const SIMULATION = 'test/sim/*.test.ts';

/** It replaces modules, which the other unit tests have loaded once. */
const MOCKS = 'src/http/exchange.test.ts';

const unit = {
  testTimeout: HANG_MS,
  expect: polling,
  // a thread starts faster than a process
  pool: 'threads',
  maxWorkers: 2,
  sequence: { groupOrder: 1 },
} as const;

/** `npm test`: all that needs nothing but Node. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', DOCUMENTS, SIMULATION],
          exclude: [MOCKS],
          ...unit,
          // modules that are loaded once take a quarter less CPU time
          isolate: false,
          setupFiles: 'test/support/real-clocks.ts',
        },
      },
      { test: { name: 'mocks', include: [MOCKS], ...unit } },
      {
        test: {
          name: 'service',
          include: ['test/**/*.test.ts'],
          exclude: [...SYSTEM_TESTS, DOCUMENTS, SIMULATION],
          ...withServers,
          // each file runs services of several processes: more at once only wait for each other
          maxWorkers: 3,
          isolate: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
