import { percentDecode } from '../lib/percent-decode.ts';

/** Decimal form of a registry id. */
export const INTEGER = /^-?\d+$/;
/** Separate from INTEGER: one expression for both takes quadratic time, and a body may hold a million zeros. */
const LEADING_ZEROS = /^(-?)0+(?=\d)/;

/** An expression is faster than a loop here; see char-code-at.ts. */
const ENCODED = /[%\ufffd]/;

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
