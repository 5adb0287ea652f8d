/** Tests of `npm run test:system`; the others in test/ belong to `npm test`. */
export const SYSTEM_TESTS = ['test/{chaos,hostile,image,manifests,procedures,system}/**/*.test.ts'];

/** Tests of `npm run test:long`, which check promises in milliseconds. */
export const LONG_TESTS = [
  'test/{chaos,hostile,freshness}/**/*.test.ts',
  'test/system/{import,link,midnight}.test.ts',
];

/** Settings of tests with real processes and servers. */
export const withServers = {
  globalSetup: 'test/support/servers.ts',
  setupFiles: 'test/support/setup.ts',
  runner: './test/support/runner.ts',
  provide: { runLength: 'short' },
  // bounds that only a hang exceeds
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { interval: 20, timeout: 60_000 } },
} as const;
