import { expect, it } from 'vitest';
import { failureOf } from './failure.ts';

const ofServer = (code: string, message = '') =>
  Object.assign(new Error(message), { code, severity: 'ERROR' });

it.each([
  ['the table was replaced meanwhile', ofServer('XX000', 'could not open relation with OID 16390'), 'outage'],
  ['another internal error', ofServer('XX000', 'invalid memory alloc request size'), 'rejected'],
  ['a table that does not exist', ofServer('42P01', 'relation "hotels" does not exist'), 'rejected'],
  ['a database that is being replaced', ofServer('55000'), 'outage'],
  ['no more connections', ofServer('53300'), 'outage'],
  ['a connection that was refused', Object.assign(new Error(), { code: 'ECONNREFUSED' }), 'outage'],
])('tells an outage from other errors: %s', (_, error, meaning) => {
  expect(failureOf(error)).toBe(meaning);
});
