import { expect, test } from 'vitest';
import { copyRow } from './copy.ts';

test('a row of COPY escapes tabs, line ends and backslashes, and distinguishes null from empty', () => {
  expect(copyRow(['', null, undefined, 'a\tb\nc\rd\\e', '\\N', 1.5, true])).toBe(
    '\t\\N\t\\N\ta\\tb\\nc\\rd\\\\e\t\\\\N\t1.5\ttrue\n',
  );
});

test('an object is a JSON value whose escapes survive COPY', () => {
  expect(copyRow([[{ url: 'https://a/"b"\n' }]])).toBe('[{"url":"https://a/\\\\"b\\\\"\\\\n"}]\n');
});
