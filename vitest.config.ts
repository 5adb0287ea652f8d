import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    reporters: ['default'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'flow',
          include: ['test/**/*.test.ts'],
          globalSetup: 'test/support/servers.ts',
          setupFiles: 'test/support/setup.ts',
          provide: { chaos: 'short' },
          // each file runs services of several processes: more at once only wait for each other
          maxWorkers: 2,
          testTimeout: 20_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
