import { defineConfig } from 'vitest/config';
import { IMAGE_TESTS, SYSTEM_TESTS, withServers } from './test/support/projects.ts';

/** `npm run test:system`: all that takes long or needs programs. */
export default defineConfig({
  test: {
    include: process.env.TEST_IMAGE ? IMAGE_TESTS : SYSTEM_TESTS,
    ...withServers,
    globalSetup: ['test/support/programs.ts', withServers.globalSetup],
    // most files wait for servers and clocks most of the time
    maxWorkers: 3,
    // postgres.js 3.4 throws this outside of any query if a server is killed while it writes; the query is rejected too
    onUnhandledError: ({ message, stack }) =>
      !(/reading 'write'/.test(message) && /postgres.src.connection/.test(stack ?? '')),
  },
});
