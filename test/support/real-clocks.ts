import { afterAll } from 'vitest';
import { realClocks } from '../../src/lib/clock.fixture.ts';
import { useClock } from '../../src/lib/clock.ts';

// the next file has the same modules
afterAll(() => {
  useClock();
  realClocks();
});
