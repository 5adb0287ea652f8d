import { afterEach } from 'vitest';
import { realClocks } from '../../src/lib/clock.fixture.ts';
import { useClock } from '../../src/lib/clock.ts';

// registered first, so that it runs after the hooks of the file
afterEach(() => {
  useClock();
  realClocks();
});
