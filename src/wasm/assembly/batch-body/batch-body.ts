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

/** Errors of a body beside NOT_JSON; src/http/batches.ts knows the numbers. */
const NO_ARRAY: i32 = -2;
const TOO_MANY: i32 = -3;
const WRONG_ELEMENT: i32 = -4;

/** Results for an element. An id that no hotel can have is ignored: nothing matches it. */
const ADDED: u32 = 0;
const LEFT_OUT: u32 = 1;
const WRONG: u32 = 2;

/** Maximum digits of a 64-bit integer. */
const MAX_DIGITS: usize = 19;
/** Bound of exponents: the digits of no body could compensate a larger one. */
const MAX_EXPONENT: i32 = 0x1000000;
const BYTE_ORDER_MARK: u32 = 0xbfbbef;
/** Numbers of namespaces, as of src/hotels/namespace.ts. */
const CHANNEL: u32 = 1;
const REGISTRY: u32 = 2;
// member names in pieces of four, as little-endian numbers
const IDS: u32 = 0x736469;
const CHAN: u32 = 0x6e616863;
const NEL_: u32 = 0x5f6c656e;
const REGI: u32 = 0x69676572;
const STRY: u32 = 0x79727473;
const _IDS: u32 = 0x7364695f;

/** Result for the array read last: its element count or the error, and the index of the first wrong element. */
let outcome: i32 = 0;
export let wrongIndex: u32 = 0;

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
  if (load<u8>(at) === CLOSE_OBJECT) return at + 1;
  while (true) {
    at = readName(at);
    if (at === INVALID) return INVALID;
    if (!isNameOfIds(namespace)) at = skipValue(at);
    else if (load<u8>(at) === OPEN_ARRAY) at = readIds(at + 1, namespace === REGISTRY);
    else {
      outcome = NO_ARRAY;
      at = skipValue(at);
    }
    if (at === INVALID) return INVALID;
    at = skipSpace(at);
    const next: u32 = load<u8>(at);
    if (next === CLOSE_OBJECT) return at + 1;
    if (next !== COMMA) return INVALID;
    at = skipSpace(at + 1);
  }
}

function isNameOfIds(namespace: u32): bool {
  const name = textStart;
  const length = textEnd - name;
  if (namespace === REGISTRY)
    return (
      length === 12 && load<u32>(name) === REGI && load<u32>(name, 4) === STRY && load<u32>(name, 8) === _IDS
    );
  if (namespace === CHANNEL)
    return (
      length === 11 && load<u32>(name) === CHAN && load<u32>(name, 4) === NEL_ && load<u32>(name, 7) === _IDS
    );
  return length === 3 && (load<u32>(name) & 0xffffff) === IDS;
}

function readIds(at: usize, isRegistry: bool): usize {
  let added: u32 = 0;
  let asked: u32 = 0;
  let isWrong = false;
  at = skipSpace(at);
  if (load<u8>(at) === CLOSE_ARRAY) {
    outcome = 0;
    return at + 1;
  }
  while (true) {
    const start = at;
    const byte: u32 = load<u8>(at);
    const isString = byte === QUOTE;
    const isNumber = isDigit(byte) || byte === MINUS;
    at = isString ? readString(at + 1) : isNumber ? readNumber(at) : skipValue(at);
    if (at === INVALID) return INVALID;
    if (asked++ < MAX_ELEMENTS) {
      let became = WRONG;
      if (isString) became = isRegistry ? addDigits(added) : addText(added);
      else if (isNumber && isRegistry) became = addNumber(added, start, at);
      if (became === ADDED) added++;
      else if (became === WRONG && !isWrong) {
        isWrong = true;
        wrongIndex = asked - 1;
      }
    }
    at = skipSpace(at);
    const next: u32 = load<u8>(at);
    if (next === CLOSE_ARRAY) break;
    if (next !== COMMA) return INVALID;
    at = skipSpace(at + 1);
  }
  outcome = asked > MAX_ELEMENTS ? TOO_MANY : isWrong ? WRONG_ELEMENT : added;
  return at + 1;
}

function add(place: u32, start: usize, end: usize): u32 {
  const element = ELEMENTS + <usize>place * ELEMENT_BYTES;
  store<u32>(element, <u32>start);
  store<u32>(element, <u32>(end - start), 4);
  return ADDED;
}

/** Adds the string read last. A string with a lone surrogate is no id. */
function addText(place: u32): u32 {
  return isTextBroken ? LEFT_OUT : add(place, textStart, textEnd);
}

/** Adds the string read last as an integer. Leading zeros are removed by moving the sign over them. */
function addDigits(place: u32): u32 {
  const end = textEnd;
  const isNegative = load<u8>(textStart) === MINUS;
  let at = isNegative ? textStart + 1 : textStart;
  if (at >= end) return WRONG;
  for (let digit = at; digit < end; digit++) {
    if (!isDigit(load<u8>(digit))) return WRONG;
  }
  while (at < end - 1 && load<u8>(at) === ZERO) at++;
  if (end - at > MAX_DIGITS) return LEFT_OUT;
  if (isNegative && load<u8>(at) !== ZERO) store<u8>(--at, MINUS);
  return add(place, at, end);
}

/** Adds the number from `start` to `end` if its value is an integer. */
function addNumber(place: u32, start: usize, end: usize): u32 {
  if ((pointAt | exponentAt) !== 0) return addScaled(place, start, end);
  const digits = start + <usize>(load<u8>(start) === MINUS);
  if (end - digits > MAX_DIGITS) return LEFT_OUT;
  return add(place, load<u8>(digits) === ZERO ? digits : start, end);
}

/** Adds a number with a fraction or an exponent, if its value is an integer, by writing its digits anew. */
function addScaled(place: u32, start: usize, end: usize): u32 {
  const isNegative = load<u8>(start) === MINUS;
  const digits = isNegative ? start + 1 : start;
  const digitsEnd = exponentAt !== 0 ? exponentAt : end;
  const text = NUMBERS + <usize>place * NUMBER_BYTES;
  store<u8>(text, MINUS);
  let write = text + 1;
  const limit = write + MAX_DIGITS;
  /** digits of the integer that follow */
  let left = <i32>((pointAt !== 0 ? pointAt : digitsEnd) - digits);
  if (exponentAt !== 0) left += readExponent(exponentAt + 1, end);
  let isTooLong = false;
  for (let digit = digits; digit < digitsEnd || (left > 0 && write > text + 1 && !isTooLong); digit++) {
    if (digit === pointAt) continue;
    const byte: u32 = digit < digitsEnd ? load<u8>(digit) : ZERO;
    if (byte !== ZERO && left <= 0) return WRONG;
    if (left-- <= 0 || (byte === ZERO && write === text + 1)) continue;
    if (write === limit) isTooLong = true;
    else store<u8>(write++, byte);
  }
  if (isTooLong) return LEFT_OUT;
  if (write > text + 1) return add(place, isNegative ? text : text + 1, write);
  store<u8>(text, ZERO);
  return add(place, text, text + 1);
}

function readExponent(at: usize, end: usize): i32 {
  const sign: u32 = load<u8>(at);
  if (!isDigit(sign)) at++;
  let exponent: i32 = 0;
  for (; at < end && exponent < MAX_EXPONENT; at++) exponent = exponent * 10 + (load<u8>(at) - ZERO);
  return sign === MINUS ? -exponent : exponent;
}
