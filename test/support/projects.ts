/** The tests of `npm run test:system`; the others in test/ are those of `npm test`. */
export const SYSTEM_TESTS = ['test/{chaos,hostile,image,manifests,procedures,system}/**/*.test.ts'];

/** The tests of `npm run test:long`: those that judge promises in milliseconds. */
export const LONG_TESTS = [
  'test/{chaos,hostile,freshness}/**/*.test.ts',
  'test/system/{import,link,midnight}.test.ts',
];

/** How tests run that use real processes and servers. */
export const withServers = {
  globalSetup: 'test/support/servers.ts',
  setupFiles: 'test/support/setup.ts',
  runner: './test/support/runner.ts',
  provide: { form: 'short' },
  // bounds that only a hang exceeds
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { interval: 20, timeout: 60_000 } },
} as const;
