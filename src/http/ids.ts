/** sign, then digits without leading zeros */
const INTEGER = /^(-?)0*(\d+)$/;

/** Decodes a path parameter; undefined when it is no percent-encoded UTF-8. */
export function decodeParameter(parameter: string): string | undefined {
  // bytes that were no UTF-8 have already become replacement characters
  if (parameter.includes('\ufffd')) return undefined;
  if (!parameter.includes('%')) return parameter;
  try {
    return decodeURIComponent(parameter);
  } catch {
    return undefined;
  }
}

/** The canonical decimal digits of a registry id, however large; undefined for what is no integer. */
export function readRegistryId(text: string): string | undefined {
  const parts = INTEGER.exec(text);
  if (!parts) return undefined;
  return parts[2] === '0' ? '0' : parts[1]! + parts[2]!;
}
