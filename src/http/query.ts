import { MAX_CHANGES } from '../changes/log-queries.ts';
import { readToken, type Token } from '../changes/token.ts';
import type { ErrorCode } from '../errors.ts';
import { percentDecode } from '../lib/percent-decode.ts';

/** Decimal form of a registry id. */
export const INTEGER = /^-?\d+$/;
/** Separate from INTEGER: one expression for both takes quadratic time, and a body may hold a million zeros. */
const LEADING_ZEROS = /^(-?)0+(?=\d)/;

/** An expression is faster than a loop here; see lib/char-code-at.ts. */
const ENCODED = /[%\ufffd]/;

export const MIN_LIMIT = 1;
export const MAX_LIMIT = 100;
export const DEFAULT_LIMIT = 20;
export const DEFAULT_OFFSET = 0;

export const DEFAULT_CHANGES = 100;
export const MAX_WAIT_S = 30;
export const DEFAULT_WAIT_S = 0;

export interface ChangesQuery {
  /** undefined: from the beginning */
  token: Token | undefined;
  limit: number;
  waitS: number;
}

interface ListQuery {
  limit: number;
  /** at most 2^53-1 */
  offset: number;
  /** undefined: no filter */
  registryId: string | undefined;
}

/** Reads a raw query string; unknown parameters are ignored. `isFiltered`: by registry id, which needs the scope whatever the value. */
export function readListQuery(query: string): { isFiltered: boolean } & (ListQuery | { error: ErrorCode }) {
  const written = parameterOf(query, 'registry_id');
  const isFiltered = written !== undefined;
  const registryId = isFiltered ? readRegistryId(written ?? '') : undefined;
  if (isFiltered && registryId === undefined) return { isFiltered, error: 'registryIdNotInteger' };
  const limit = readCount(query, 'limit', DEFAULT_LIMIT);
  if (limit === undefined || limit < MIN_LIMIT || limit > MAX_LIMIT)
    return { isFiltered, error: 'limitOutOfBounds' };
  const offset = readCount(query, 'offset', DEFAULT_OFFSET);
  if (offset === undefined) return { isFiltered, error: 'offsetOutOfBounds' };
  return { isFiltered, limit, offset, registryId };
}

/** Reads a raw query string; unknown parameters are ignored. */
export function readChangesQuery(query: string): ChangesQuery | { error: ErrorCode } {
  const after = parameterOf(query, 'after');
  const token = after === undefined ? undefined : readToken(after ?? '');
  if (after !== undefined && token === undefined) return { error: 'afterNotToken' };
  const limit = readCount(query, 'limit', DEFAULT_CHANGES);
  if (limit === undefined || limit < MIN_LIMIT || limit > MAX_CHANGES)
    return { error: 'changesLimitOutOfBounds' };
  const waitS = readCount(query, 'wait', DEFAULT_WAIT_S);
  if (waitS === undefined || waitS > MAX_WAIT_S) return { error: 'waitOutOfBounds' };
  return { token, limit, waitS };
}

/** Patterns of parameters, by name. Each character of the name may be percent-encoded. */
const PATTERNS = Object.fromEntries(
  ['registry_id', 'limit', 'offset', 'after', 'wait'].map((name) => {
    const either = (character: string) =>
      `(?:${character}|%${character
        .charCodeAt(0)
        .toString(16)
        .replace(/[a-f]/, (digit) => `[${digit}${digit.toUpperCase()}]`)})`;
    return [name, new RegExp(`(?:^|&)${[...name].map(either).join('')}(?:=([^&]*))?(?![^&])`)];
  }),
);

/**
 * Returns the decoded value of the first parameter of this name in a raw query string; undefined: there is none, null: it
 * cannot be decoded. The other parameters are not decoded, whatever they are.
 */
function parameterOf(query: string, name: string): string | null | undefined {
  const found = PATTERNS[name]!.exec(query);
  return found ? (percentDecode((found[1] ?? '').replaceAll('+', ' ')) ?? null) : undefined;
}

function readCount(query: string, name: string, fallback: number): number | undefined {
  const text = parameterOf(query, name);
  if (text === undefined) return fallback;
  if (text === null || !/^\d+$/.test(text)) return undefined;
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER);
}

/** Decodes a path parameter; undefined if it is not percent-encoded UTF-8. */
export function decodeParameter(parameter: string): string | undefined {
  if (!ENCODED.test(parameter)) return parameter;
  // bytes that are not UTF-8 have already become replacement characters
  return parameter.includes('\ufffd') ? undefined : percentDecode(parameter);
}

/** Returns the canonical decimal digits of a registry id of any size; undefined if the text is not an integer. */
export function readRegistryId(text: string): string | undefined {
  if (!INTEGER.test(text)) return undefined;
  const digits = text.replace(LEADING_ZEROS, '$1');
  return digits === '-0' ? '0' : digits;
}
