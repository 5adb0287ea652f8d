/** The tests of `npm run test:system`; the others in test/ are those of `npm test`. */
export const SYSTEM_TESTS = ['test/{chaos,hostile,image,manifests,procedures,system}/**/*.test.ts'];

/** How tests run that use real processes and servers. */
export const withServers = {
  globalSetup: 'test/support/servers.ts',
  setupFiles: 'test/support/setup.ts',
  runner: './test/support/runner.ts',
  provide: { form: 'short' },
  testTimeout: 30_000,
  hookTimeout: 60_000,
} as const;
