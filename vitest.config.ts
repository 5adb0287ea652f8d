import { defineConfig } from 'vitest/config';

/** Tests with real processes and servers. */
const withServers = {
  globalSetup: 'test/support/servers.ts',
  setupFiles: 'test/support/setup.ts',
  testTimeout: 20_000,
  hookTimeout: 60_000,
} as const;

/** They measure times: nothing else is to take the processors. */
const ALONE = ['test/chaos/*.test.ts', 'test/hostile/*.test.ts', 'test/freshness/{import,midnight}.test.ts'];

export default defineConfig({
  test: {
    reporters: ['default'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts'],
          // 0 would be last where it has one processor
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'flow',
          include: ['test/**/*.test.ts'],
          exclude: ALONE,
          ...withServers,
          provide: { sharedMachine: true },
          // each file runs services of several processes: more at once only wait for each other
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          name: 'alone',
          include: ALONE,
          ...withServers,
          provide: { chaos: 'short' },
          // a fault may be tried three times
          testTimeout: 120_000,
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
