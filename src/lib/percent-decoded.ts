const PERCENT = 0x25;

/**
 * Returns a percent-encoded text decoded; undefined if it is not percent-encoded UTF-8. `decodeURIComponent` would throw,
 * and an exception costs as much as decoding a thousand characters.
 */
export function percentDecode(text: string): string | undefined {
  const first = text.indexOf('%');
  if (first < 0) return text;
  for (let at = first; at < text.length; )
    if (text.charCodeAt(at) !== PERCENT) at++;
    else {
      at = endOfCharacter(text, at);
      if (at < 0) return undefined;
    }
  return decodeURIComponent(text);
}

/** Returns a percent-encoded text decoded, or as it is if its encoding is wrong. */
export function percentDecoded(text: string): string {
  return percentDecode(text) ?? text;
}

/** Returns the offset behind the encoded character at `at`; -1 if it is not UTF-8 (RFC 3629, section 4). */
function endOfCharacter(text: string, at: number): number {
  const first = byteAt(text, at);
  if (first < 0x80) return first < 0 ? -1 : at + 3;
  if (first < 0xc2 || first > 0xf4) return -1;
  const count = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const second = byteAt(text, at + 3);
  // the shortest form, no surrogates, and nothing above U+10FFFF
  const least = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const most = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  if (second < least || second > most) return -1;
  for (let i = 2; i < count; i++) if (byteAt(text, at + 3 * i) >>> 6 !== 2) return -1;
  return at + 3 * count;
}

/** Returns the byte of a percent sign and two hexadecimal digits; -1 if they are not there. */
export function byteAt(text: string, at: number): number {
  if (at + 2 >= text.length || text.charCodeAt(at) !== PERCENT) return -1;
  const high = digitOf(text.charCodeAt(at + 1));
  const low = digitOf(text.charCodeAt(at + 2));
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
