import { afterAll } from 'vitest';
import { closeAll } from './cleanup.ts';

// registered first, so that it runs after the hooks of the file
afterAll(closeAll);
