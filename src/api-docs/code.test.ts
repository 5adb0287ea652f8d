import { expect, test } from 'vitest';
import { highlight } from './code.ts';

/** Returns the text that a browser shows for the HTML. */
const shown = (html: string) =>
  html.replace(/<[^>]*>/g, '').replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code));

test.each([
  ['ts', 'const a = \'<b>\' // "&"\n/* return */ `x`'],
  ['py', 'def f(self): # "no string"\n    """return\n"""\n    return f"a\\"b"'],
  ['sh', '# a comment\ncurl -d \'{"a":1}\' "$URL/x#no-comment"'],
  ['json', '{"a":"<script>"}'],
])('highlighted %s is the same text, and no markup of its own', (language, code) => {
  const html = highlight(code, language);
  expect(shown(html)).toBe(code);
  expect(html.match(/<(?!\/?span\b)/g)).toBeNull();
});

test('a word in a string or a comment is no keyword', () => {
  expect(highlight("'return' // import", 'ts')).toBe(
    '<span class="s">\'return\'</span> <span class="c">// import</span>',
  );
});
