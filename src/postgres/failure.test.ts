import { expect, it } from 'vitest';
import { failureOf } from './failure.ts';

const ofServer = (code: string, message = '') =>
  Object.assign(new Error(message), { code, severity: 'ERROR' });

it.each([
  ['the table was replaced meanwhile', ofServer('XX000', 'could not open relation with OID 16390'), true],
  ['another internal error', ofServer('XX000', 'invalid memory alloc request size'), false],
  ['a table that does not exist', ofServer('42P01', 'relation "hotels" does not exist'), false],
  ['a database that is being replaced', ofServer('55000'), true],
  ['no more connections', ofServer('53300'), true],
  ['a connection that was refused', Object.assign(new Error(), { code: 'ECONNREFUSED' }), true],
])('tells an outage from other errors: %s', (_, error, isOutage) => {
  expect(failureOf(error)).toMatchObject({ isOutage, isReply: !isOutage && 'severity' in error });
});
