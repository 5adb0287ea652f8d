import { afterAll } from 'vitest';
import { closeAll } from './left-behind.ts';

// registered first, so it runs after the hooks of the file itself
afterAll(closeAll);
