import { expect, test } from 'vitest';
import { Failure } from '../../lib/failure.ts';
import { explainError } from './explain-error.ts';

test('a Failure yields its message and exit code 1', () => {
  expect(explainError(new Failure('no such key'))).toEqual({ lines: ['no such key'], exitCode: 1 });
});

test('each fault of the configuration is a line, and the exit code is that of wrong usage', () => {
  expect(explainError(new Failure('PORT is wrong\nHOST is wrong', 2))).toEqual({
    lines: ['PORT is wrong', 'HOST is wrong'],
    exitCode: 2,
  });
});

test('a connection error states what to check', () => {
  const error = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' });
  expect(explainError(error).lines).toEqual([
    'cannot use PostgreSQL: connect ECONNREFUSED 127.0.0.1:1. Check host and port in DATABASE_URL and that the server runs.',
  ]);
});

test('the password of DATABASE_URL is never printed, encoded or not', () => {
  for (const password of ['s3cret', 'p%40ss%2Fword', 'with@at', 'with,comma']) {
    const url = `postgres://user:${password}@host:5432/db`;
    const error = new Error(`cannot use ${url} or ${decodeURIComponent(password)}`);
    const printed = explainError(error, url).lines.join('\n');
    expect(printed).not.toContain(password);
    expect(printed).not.toContain(decodeURIComponent(password));
  }
});
