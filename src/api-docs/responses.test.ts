import { expect, test } from 'vitest';
import { publicErrors } from '../errors.ts';
import { MEANINGS } from './responses.ts';

test('every status of the error table has a meaning', () => {
  for (const { status } of Object.values(publicErrors)) expect(MEANINGS).toHaveProperty(String(status));
});
