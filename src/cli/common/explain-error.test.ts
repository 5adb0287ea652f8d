import { expect, test } from 'vitest';
import { explainError } from './explain-error.ts';

test('the password of DATABASE_URL is never printed, encoded or not', () => {
  for (const password of ['s3cret', 'p%40ss%2Fword', 'with@at', 'with,comma']) {
    const url = `postgres://user:${password}@host:5432/db`;
    const error = new Error(`cannot use ${url} or ${decodeURIComponent(password)}`);
    const printed = explainError(error, url).lines.join('\n');
    expect(printed).not.toContain(password);
    expect(printed).not.toContain(decodeURIComponent(password));
  }
});

test.each([
  ['ECONNREFUSED', /^cannot use PostgreSQL: why\. Check host and port/],
  ['CONNECT_TIMEOUT', /Check host and port/],
  ['CONNECTION_CLOSED', /The connection was lost/],
  ['57P01', /The connection was lost/],
  ['28P01', /Check user and password/],
  ['SELF_SIGNED_CERT_IN_CHAIN', /Check sslmode/],
  ['53300', /max_connections/],
  ['42P01', /^PostgreSQL rejected the statement \(42P01\): why\. Run: hotel-api migrate/],
  ['22001', /Nothing was changed/],
])('%s comes with advice', (code, advice) => {
  const error = Object.assign(new Error('why'), { name: 'PostgresError', code });
  expect(explainError(error).lines[0]).toMatch(advice);
});
