/** Tests of `npm run test:system`; the others in test/ belong to `npm test`. */
export const SYSTEM_TESTS = ['test/{hostile,image,manifests,procedures,system}/**/*.test.ts'];

/**
 * Tests that test/image repeats on the image: what its own Node and HTTP library decide. The workflow runs the rest of `npm test`
 * with both.
 */
export const IMAGE_TESTS = [
  'test/contract/{headers,malformed-requests,single}.test.ts',
  'test/hostile/{parser-gaps,slow-clients,split-requests}.test.ts',
];

/** Bound that only a hang exceeds, also on a machine with a load of 15 for each core. */
export const HANG_MS = 300_000;

/** Settings of `expect.poll`, whose default bound of 1 s a busy machine exceeds. */
export const polling = { poll: { interval: 20, timeout: HANG_MS / 3 } } as const;

/** Settings of tests with real processes and servers. */
export const withServers = {
  globalSetup: 'test/support/servers.ts',
  setupFiles: 'test/support/setup.ts',
  runner: './test/support/runner.ts',
  testTimeout: HANG_MS,
  hookTimeout: HANG_MS,
  expect: polling,
} as const;
