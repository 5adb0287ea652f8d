/** The written form of a registry id. */
export const INTEGER = /^-?\d+$/;
/** Apart from INTEGER: one expression for both takes time in the square of the length, and a body holds a million zeros. */
const LEADING_ZEROS = /^(-?)0+(?=\d)/;

/** By an expression, for why see char-code-at.ts. */
const ENCODED = /[%\ufffd]/;

/** Decodes a path parameter; undefined when it is no percent-encoded UTF-8. */
export function decodeParameter(parameter: string): string | undefined {
  if (!ENCODED.test(parameter)) return parameter;
  // bytes that were no UTF-8 have already become replacement characters
  if (parameter.includes('\ufffd')) return undefined;
  try {
    return decodeURIComponent(parameter);
  } catch {
    return undefined;
  }
}

/** The canonical decimal digits of a registry id, however large; undefined for what is no integer. */
export function readRegistryId(text: string): string | undefined {
  if (!INTEGER.test(text)) return undefined;
  const digits = text.replace(LEADING_ZEROS, '$1');
  return digits === '-0' ? '0' : digits;
}
