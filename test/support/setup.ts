import { afterAll } from 'vitest';
import { closeAll } from './left-behind.ts';

// registered first, so that it runs after the hooks of the file
afterAll(closeAll);
