/**
 * Parses a batch request body, `{"ids":["…",…]}`, `{"channel_ids":["…",…]}` or `{"registry_ids":[1,"2",…]}`, in one pass. The
 * whole body is validated and may have other members; the last of repeated names counts.
 */
import { NOT_JSON } from '../../constants';
import { ELEMENT_BYTES, ELEMENTS, INPUT, MAX_ELEMENTS, NUMBER_BYTES, NUMBERS } from '../layout';
import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  exponentAt,
  INVALID,
  isDigit,
  isTextBroken,
  MINUS,
  OPEN_ARRAY,
  OPEN_OBJECT,
  pointAt,
  QUOTE,
  readName,
  readNumber,
  readString,
  skipSpace,
  skipValue,
  textEnd,
  textStart,
  ZERO,
} from './json';

/** Errors of a body beside NOT_JSON; src/http/operations.ts knows the numbers. */
const NO_ARRAY: i32 = -2;
const TOO_MANY: i32 = -3;
const WRONG_ELEMENT: i32 = -4;

/** Maximum digits of a 64-bit integer. */
const MAX_DIGITS: i32 = 19;
/** Bound of exponents: the digits of no body could compensate a larger one. */
const MAX_EXPONENT: i32 = 0x1000000;
const BYTE_ORDER_MARK: u32 = 0xbfbbef;
/** Numbers of namespaces, as of src/hotels/namespace.ts. */
const CHANNEL: u32 = 1;
const REGISTRY: u32 = 2;
// `ids`, `channel_` and `registry` as little-endian numbers, and the last four bytes of a longer name
const IDS: u32 = 0x736469;
const LAST_OF_NAME: u32 = 0x7364695f;
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const CHANNEL_: u64 = 0x5f6c656e6e616863;
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const REGISTRY_: u64 = 0x7972747369676572;

/** Result for the array read last: its element count or the error, and the index of the first wrong element. */
let outcome: i32 = 0;
export let wrongIndex: u32 = 0;
/** number of its elements that are in ELEMENTS: an id that no hotel can have is left out */
let added: u32 = 0;

/** Fills ELEMENTS from the `length` bytes of UTF-8 at INPUT, which it changes; returns the number of elements or the error. */
export function readBody(length: u32, namespace: u32): i32 {
  const end = INPUT + length;
  v128.store(end, i8x16.splat(0));
  let at = skipSpace((load<u32>(INPUT) & 0xffffff) === BYTE_ORDER_MARK ? INPUT + 3 : INPUT);
  outcome = NO_ARRAY;
  at = load<u8>(at) === OPEN_OBJECT ? readMembers(at + 1, namespace) : skipValue(at);
  return at !== INVALID && skipSpace(at) === end ? outcome : NOT_JSON;
}

function readMembers(at: usize, namespace: u32): usize {
  at = skipSpace(at);
  let next: u32 = load<u8>(at);
  while (next !== CLOSE_OBJECT) {
    at = readName(at);
    if (!isNameOfIds(namespace)) at = skipValue(at);
    else if (load<u8>(at) === OPEN_ARRAY) at = readIds(at + 1, namespace === REGISTRY);
    else {
      outcome = NO_ARRAY;
      at = skipValue(at);
    }
    at = skipSpace(at);
    next = load<u8>(at);
    if (next === COMMA) at = skipSpace(at + 1);
    else if (next !== CLOSE_OBJECT) return INVALID;
  }
  return at + 1;
}

function isNameOfIds(namespace: u32): bool {
  const length = textEnd - textStart;
  if (namespace !== CHANNEL && namespace !== REGISTRY)
    return length === 3 && (load<u32>(textStart) & 0xffffff) === IDS;
  const start = namespace === CHANNEL ? CHANNEL_ : REGISTRY_;
  return (
    length === (namespace === CHANNEL ? 11 : 12) &&
    load<u64>(textStart) === start &&
    load<u32>(textEnd - 4) === LAST_OF_NAME
  );
}

function readIds(at: usize, isRegistry: bool): usize {
  let asked: u32 = 0;
  added = 0;
  wrongIndex = MAX_ELEMENTS;
  at = skipSpace(at);
  let next: u32 = load<u8>(at);
  while (next !== CLOSE_ARRAY) {
    const start = at;
    const byte: u32 = load<u8>(at);
    const isString = byte === QUOTE;
    const isNumber = isDigit(byte) || byte === MINUS;
    at = isString ? readString(at + 1) : isNumber ? readNumber(at) : skipValue(at);
    // a failed read fails again below
    if (at !== INVALID && asked < MAX_ELEMENTS) {
      let isRight = false;
      if (isString) isRight = isRegistry ? addDigits() : addText();
      else if (isNumber && isRegistry) isRight = addNumber(start, at);
      if (!isRight) wrongIndex = min(wrongIndex, asked);
    }
    asked++;
    at = skipSpace(at);
    next = load<u8>(at);
    if (next === COMMA) at = skipSpace(at + 1);
    else if (next !== CLOSE_ARRAY) return INVALID;
  }
  outcome = asked > MAX_ELEMENTS ? TOO_MANY : wrongIndex < MAX_ELEMENTS ? WRONG_ELEMENT : added;
  return at + 1;
}

/** Adds an element. Like what follows, returns false for the wrong type alone. */
function add(start: usize, end: usize): bool {
  const element = ELEMENTS + <usize>added * ELEMENT_BYTES;
  store<u32>(element, <u32>start);
  store<u32>(element, <u32>(end - start), 4);
  added++;
  return true;
}

/** Adds the string read last. A string with a lone surrogate is no id. */
function addText(): bool {
  return isTextBroken || add(textStart, textEnd);
}

/** Adds the string read last as an integer. Leading zeros are removed by moving the sign over them. */
function addDigits(): bool {
  const end = textEnd;
  const isNegative = load<u8>(textStart) === MINUS;
  let at = isNegative ? textStart + 1 : textStart;
  if (at >= end) return false;
  for (let digit = at; digit < end; digit++) if (!isDigit(load<u8>(digit))) return false;
  while (at < end - 1 && load<u8>(at) === ZERO) at++;
  if (<i32>(end - at) > MAX_DIGITS) return true;
  if (isNegative && load<u8>(at) !== ZERO) store<u8>(--at, MINUS);
  return add(at, end);
}

/** Adds the number read last if its value is an integer. */
function addNumber(start: usize, end: usize): bool {
  if ((pointAt | exponentAt) !== 0) return addScaled(start, end);
  const digits = start + <usize>(load<u8>(start) === MINUS);
  return <i32>(end - digits) > MAX_DIGITS || add(load<u8>(digits) === ZERO ? digits : start, end);
}

/** Adds a number with a fraction or an exponent, if its value is an integer, by writing its digits anew. */
function addScaled(start: usize, end: usize): bool {
  let from = start + <usize>(load<u8>(start) === MINUS);
  let to = exponentAt !== 0 ? exponentAt : end;
  const point = pointAt !== 0 ? pointAt : to;
  while (from < to && (load<u8>(from) === ZERO || from === point)) from++;
  while (from < to && (load<u8>(to - 1) === ZERO || to - 1 === point)) to--;
  /** zeros behind the last other digit; negative: that one is in the fraction */
  let zeros = <i32>(point - to) + <i32>(point < to);
  if (exponentAt !== 0) zeros += readExponent(exponentAt + 1, end);
  if (from === to) zeros = 1;
  if (zeros < 0) return false;
  const digits = <i32>(to - from) - <i32>(from < point && point < to);
  if (digits + zeros > MAX_DIGITS) return true;
  const text = NUMBERS + <usize>added * NUMBER_BYTES;
  let write = text;
  if (from < to && load<u8>(start) === MINUS) store<u8>(write++, MINUS);
  for (; from < to; from++) if (from !== point) store<u8>(write++, load<u8>(from));
  for (; zeros > 0; zeros--) store<u8>(write++, ZERO);
  return add(text, write);
}

function readExponent(at: usize, end: usize): i32 {
  const sign: u32 = load<u8>(at);
  if (!isDigit(sign)) at++;
  let exponent: i32 = 0;
  for (; at < end && exponent < MAX_EXPONENT; at++) exponent = exponent * 10 + (load<u8>(at) - ZERO);
  return sign === MINUS ? -exponent : exponent;
}
