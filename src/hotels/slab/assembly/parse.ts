/**
 * Reads the body of a batch request where it has its plain form, `{"channel_ids":["…",…]}` or
 * `{"registry_ids":[1,"2",…]}`: that one member, strings of printable ASCII without escapes, integers without
 * leading zeros. Whatever else it may be, valid or not, JSON.parse judges it.
 */
import { ELEMENT_BYTES, ELEMENTS, INPUT, MAX_ELEMENTS } from './layout';

export const NOT_PLAIN: u32 = 0xffffffff;
// The members' names in pieces of four, as little-endian numbers.
const CHAN: u32 = 0x6e616863;
const NEL_: u32 = 0x5f6c656e;
const REGI: u32 = 0x69676572;
const STRY: u32 = 0x79727473;
const _IDS: u32 = 0x7364695f;

function isSpace(byte: u32): bool {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isDigit(byte: u32): bool {
  return byte - 0x30 < 10;
}

function skipSpace(at: usize): usize {
  while (isSpace(load<u8>(at))) at++;
  return at;
}

/** The first byte that may not stand in a plain string: quote, backslash, control, not ASCII. */
function endOfPlain(at: usize): usize {
  const quotes = i8x16.splat(0x22);
  const backslashes = i8x16.splat(0x5c);
  const spaces = i8x16.splat(0x20);
  while (true) {
    const bytes = v128.load(at);
    // As signed numbers, bytes from 0x80 on are below the space too.
    const ends = v128.or(
      v128.or(i8x16.eq(bytes, quotes), i8x16.eq(bytes, backslashes)),
      i8x16.lt_s(bytes, spaces),
    );
    const mask = i8x16.bitmask(ends);
    if (mask !== 0) return at + ctz(mask);
    at += 16;
  }
}

/**
 * Makes an element of an integer's text, leading zeros and the sign of zero dropped. False when it is none.
 * A minus that zeros part from its digits is moved, which changes only bytes already read.
 */
function addInteger(element: usize, start: usize, end: usize): bool {
  const isNegative = load<u8>(start) === 0x2d;
  let at = isNegative ? start + 1 : start;
  if (at >= end) return false;
  for (let digit = at; digit < end; digit++) {
    if (!isDigit(load<u8>(digit))) return false;
  }
  while (at < end - 1 && load<u8>(at) === 0x30) at++;
  if (isNegative && load<u8>(at) !== 0x30) {
    at--;
    store<u8>(at, 0x2d);
  }
  addKey(element, at, end);
  return true;
}

function addKey(element: usize, start: usize, end: usize): void {
  store<u32>(element, <u32>start);
  store<u32>(element, <u32>(end - start), 4);
}

/** Fills ELEMENTS from the `length` bytes at INPUT; returns how many, or NOT_PLAIN. */
export function parse(length: u32, isRegistry: bool): u32 {
  const end = INPUT + length;
  // Zeros end every scan below: they may stand nowhere in plain JSON.
  v128.store(end, i8x16.splat(0));
  let at = skipSpace(INPUT);
  if (load<u8>(at) !== 0x7b) return NOT_PLAIN;
  at = skipSpace(at + 1);
  if (load<u8>(at) !== 0x22) return NOT_PLAIN;
  const isNamed = isRegistry
    ? load<u32>(at + 1) === REGI && load<u32>(at + 5) === STRY && load<u32>(at + 9) === _IDS
    : load<u32>(at + 1) === CHAN && load<u32>(at + 5) === NEL_ && load<u32>(at + 8) === _IDS;
  if (!isNamed) return NOT_PLAIN;
  at += isRegistry ? 13 : 12;
  if (load<u8>(at) !== 0x22) return NOT_PLAIN;
  at = skipSpace(at + 1);
  if (load<u8>(at) !== 0x3a) return NOT_PLAIN;
  at = skipSpace(at + 1);
  if (load<u8>(at) !== 0x5b) return NOT_PLAIN;
  at = skipSpace(at + 1);

  let count: u32 = 0;
  if (load<u8>(at) === 0x5d) at++;
  else {
    while (true) {
      if (count === MAX_ELEMENTS) return NOT_PLAIN;
      const element = ELEMENTS + <usize>count * ELEMENT_BYTES;
      const isString = load<u8>(at) === 0x22;
      const start = isString ? at + 1 : at;
      let stop: usize = 0;
      if (isString) {
        stop = endOfPlain(start);
        if (load<u8>(stop) !== 0x22) return NOT_PLAIN;
        at = stop + 1;
      } else {
        const digits = load<u8>(start) === 0x2d ? start + 1 : start;
        stop = digits;
        while (isDigit(load<u8>(stop))) stop++;
        if (load<u8>(digits) === 0x30 && stop > digits + 1) return NOT_PLAIN;
        at = stop;
      }
      if (isRegistry) {
        if (!addInteger(element, start, stop)) return NOT_PLAIN;
      } else {
        if (!isString) return NOT_PLAIN;
        addKey(element, start, stop);
      }
      count++;
      at = skipSpace(at);
      if (load<u8>(at) === 0x5d) {
        at++;
        break;
      }
      if (load<u8>(at) !== 0x2c) return NOT_PLAIN;
      at = skipSpace(at + 1);
    }
  }
  at = skipSpace(at);
  if (load<u8>(at) !== 0x7d) return NOT_PLAIN;
  at = skipSpace(at + 1);
  return at === end ? count : NOT_PLAIN;
}
