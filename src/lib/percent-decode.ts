/** Percent-encoded UTF-8 (RFC 3629, section 4): the shortest forms, no surrogates, and nothing above U+10FFFF. */
const UTF_8 = new RegExp(
  `^(?:[^%]|%[0-7]X|%(?:C[2-9A-F]|DX)T|%E0%[AB]XT|%(?:E[1-9A-CEF]T|ED%[89]X)T|%(?:F0%[9AB]X|F[1-3]T|F4%8X)TT)*$`
    .replaceAll('T', '%[89AB]X')
    .replaceAll('X', '[0-9A-F]'),
  'i',
);

/**
 * Returns a percent-encoded text decoded; undefined if it is not percent-encoded UTF-8. `decodeURIComponent` would throw,
 * and an exception costs as much as decoding a thousand characters.
 */
export function percentDecode(text: string): string | undefined {
  if (!text.includes('%')) return text;
  return UTF_8.test(text) ? decodeURIComponent(text) : undefined;
}

/** Returns a percent-encoded text decoded, or as it is if its encoding is wrong. */
export function percentDecodeOrKeep(text: string): string {
  return percentDecode(text) ?? text;
}
