import { expect, test } from 'vitest';
import { publicErrors } from '../errors.ts';
import { failures, MEANINGS } from './responses.ts';

test('every status of the error table has a meaning', () => {
  for (const { status } of Object.values(publicErrors)) expect(MEANINGS).toHaveProperty(String(status));
});

test('an operation has its own errors, and those that any may give, each once', () => {
  const responses = failures(['hotelNotFound', 'forbidden', 'unauthorized']);
  expect(Object.keys(responses)).toEqual(['401', '403', '404', '429', '500', '503']);
  expect(JSON.stringify(responses).match(/"error":"Unauthorized"/g)).toHaveLength(1);
  expect(JSON.stringify(responses)).not.toContain('Method not allowed');
});
