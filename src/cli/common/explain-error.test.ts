import { expect, test } from 'vitest';
import { Failure } from '../../lib/failure.ts';
import { explainError } from './explain-error.ts';

test('each fault of the configuration is a line, and the exit code is that of wrong usage', () => {
  expect(explainError(new Failure('PORT is wrong\nHOST is wrong', 2))).toEqual({
    lines: ['PORT is wrong', 'HOST is wrong'],
    exitCode: 2,
  });
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
