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
