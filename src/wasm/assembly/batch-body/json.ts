/**
 * Validates JSON (RFC 8259) in one pass without recursion, and decodes its strings in place. The text must be valid UTF-8,
 * followed by 16 zeros, which end every scan. A reader function returns the address behind the value, or INVALID. There are
 * zeros too, so a reader that begins there returns it again.
 */
export const INVALID: usize = 0;

export const QUOTE: u32 = 0x22;
export const COMMA: u32 = 0x2c;
export const MINUS: u32 = 0x2d;
export const ZERO: u32 = 0x30;
const COLON: u32 = 0x3a;
export const OPEN_ARRAY: u32 = 0x5b;
const BACKSLASH: u32 = 0x5c;
export const CLOSE_ARRAY: u32 = 0x5d;
export const OPEN_OBJECT: u32 = 0x7b;
export const CLOSE_OBJECT: u32 = 0x7d;
// literals in pieces of four, as little-endian numbers
const TRUE: u32 = 0x65757274;
const ALSE: u32 = 0x65736c61;
const NULL: u32 = 0x6c6c756e;

/** Decoded bytes of the string read last, and whether it has a lone surrogate. */
export let textStart: usize = 0;
export let textEnd: usize = 0;
export let isTextBroken: bool = false;
/** Addresses of the point and the exponent letter of the number read last; 0 if it has none. */
export let pointAt: usize = 0;
export let exponentAt: usize = 0;

export function isDigit(byte: u32): bool {
  return byte - ZERO < 10;
}

export function skipSpace(at: usize): usize {
  while (true) {
    const byte: u32 = load<u8>(at);
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) return at;
    at++;
  }
}

/** Returns the address of the first byte that is a quote, a backslash or a control character. */
function endOfPlain(at: usize): usize {
  const quotes = i8x16.splat(0x22);
  const backslashes = i8x16.splat(0x5c);
  const spaces = i8x16.splat(0x20);
  while (true) {
    const bytes = v128.load(at);
    const ends = v128.or(
      v128.or(i8x16.eq(bytes, quotes), i8x16.eq(bytes, backslashes)),
      i8x16.lt_u(bytes, spaces),
    );
    const mask = i8x16.bitmask(ends);
    if (mask !== 0) return at + ctz(mask);
    at += 16;
  }
}

/** Reads the string whose opening quote is before `at`. */
export function readString(at: usize): usize {
  const end = endOfPlain(at);
  if (load<u8>(end) !== QUOTE) return readOddString(at, end);
  textStart = at;
  textEnd = end;
  isTextBroken = false;
  return end + 1;
}

/** Continues at the first special byte. A decoded string is never longer than its source. */
function readOddString(start: usize, at: usize): usize {
  let write = at;
  let isBroken = false;
  while (true) {
    const byte: u32 = load<u8>(at);
    if (byte === QUOTE) break;
    if (byte === BACKSLASH) {
      const letter: u32 = load<u8>(at + 1);
      if (letter !== 0x75) {
        const decoded = decodedOf(letter);
        if (decoded === 0) return INVALID;
        store<u8>(write++, decoded);
        at += 2;
        continue;
      }
      let code = readHex(at + 2);
      if (code < 0) return INVALID;
      at += 6;
      if ((code & 0xf800) === 0xd800) {
        // 0x755c is `\u` as a little-endian number
        const low = (code & 0x400) === 0 && load<u16>(at) === 0x755c ? readHex(at + 2) : -1;
        if ((low & ~0x3ff) === 0xdc00) {
          code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
          at += 6;
        } else isBroken = true;
      }
      write = encode(write, code);
    } else if (byte >= 0x20) {
      const end = endOfPlain(at);
      if (write !== at) memory.copy(write, at, end - at);
      write += end - at;
      at = end;
    } else return INVALID;
  }
  textStart = start;
  textEnd = write;
  isTextBroken = isBroken;
  return at + 1;
}

/** Returns the character of an escape letter; 0 if the letter is invalid. */
function decodedOf(letter: u32): u32 {
  if (letter === QUOTE || letter === BACKSLASH || letter === 0x2f) return letter;
  if (letter === 0x62) return 0x08;
  if (letter === 0x66) return 0x0c;
  if (letter === 0x6e) return 0x0a;
  if (letter === 0x72) return 0x0d;
  return letter === 0x74 ? 0x09 : 0;
}

/** Returns the value of four hexadecimal digits; negative if they are invalid. */
function readHex(at: usize): i32 {
  let value: i32 = 0;
  for (let end = at + 4; at < end; at++) {
    const byte: u32 = load<u8>(at);
    const letter = (byte | 0x20) - 0x61;
    value = (value << 4) | (isDigit(byte) ? byte - ZERO : letter < 6 ? letter + 10 : -0x10000);
  }
  return value;
}

/** Writes a code point as UTF-8, a lone surrogate as three bytes; returns the address behind it. */
function encode(at: usize, code: u32): usize {
  if (code < 0x80) {
    store<u8>(at, code);
    return at + 1;
  }
  const bytes: u32 = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (let byte = at + bytes - 1; byte > at; byte--, code >>= 6) store<u8>(byte, 0x80 | (code & 0x3f));
  // as many ones as bytes, in the highest bits
  store<u8>(at, (0xf00 >> bytes) | code);
  return at + bytes;
}

/** Reads a number. */
export function readNumber(at: usize): usize {
  pointAt = 0;
  exponentAt = 0;
  if (load<u8>(at) === MINUS) at++;
  const first: u32 = load<u8>(at++);
  if (!isDigit(first)) return INVALID;
  if (first !== ZERO) at = skipDigits(at);
  if (load<u8>(at) === 0x2e) {
    pointAt = at++;
    if (!isDigit(load<u8>(at))) return INVALID;
    at = skipDigits(at + 1);
  }
  if ((load<u8>(at) | 0x20) === 0x65) {
    exponentAt = at++;
    const sign: u32 = load<u8>(at);
    if (sign === MINUS || sign === 0x2b) at++;
    if (!isDigit(load<u8>(at))) return INVALID;
    at = skipDigits(at + 1);
  }
  return at;
}

function skipDigits(at: usize): usize {
  while (isDigit(load<u8>(at))) at++;
  return at;
}

/** Reads a member's name and its colon; returns the address of its value. */
export function readName(at: usize): usize {
  if (load<u8>(at) !== QUOTE) return INVALID;
  at = skipSpace(readString(at + 1));
  return load<u8>(at) === COLON ? skipSpace(at + 1) : INVALID;
}

/**
 * Validates a value of any kind. The nesting is kept in place: one byte for each open level, written over text that
 * was already read.
 */
export function skipValue(at: usize): usize {
  const levels = at;
  let top = at;
  while (true) {
    const byte: u32 = load<u8>(at);
    if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      const close = byte + 2;
      at = skipSpace(at + 1);
      if (load<u8>(at) !== close) {
        store<u8>(top++, close);
        if (close === CLOSE_OBJECT) at = readName(at);
        continue;
      }
      at++;
    } else at = byte === QUOTE ? readString(at + 1) : skipWord(at, byte);
    // a value has ended, and perhaps the values that contain it
    let next = CLOSE_ARRAY;
    while (next !== COMMA) {
      if (top === levels) return at;
      at = skipSpace(at);
      next = load<u8>(at++);
      if (next === load<u8>(top - 1)) top--;
      else if (next !== COMMA) return INVALID;
    }
    at = skipSpace(at);
    if (load<u8>(top - 1) === CLOSE_OBJECT) at = readName(at);
  }
}

/** Reads a number, or true, false or null. */
function skipWord(at: usize, byte: u32): usize {
  if (byte === 0x74) return load<u32>(at) === TRUE ? at + 4 : INVALID;
  if (byte === 0x66) return load<u32>(at, 1) === ALSE ? at + 5 : INVALID;
  if (byte === 0x6e) return load<u32>(at) === NULL ? at + 4 : INVALID;
  return readNumber(at);
}
