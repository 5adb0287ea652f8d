/** Returns a percent-encoded text decoded; undefined if it is not percent-encoded UTF-8. */
export function percentDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Returns a percent-encoded text decoded, or as it is if its encoding is wrong. */
export function percentDecodeOrKeep(text: string): string {
  return percentDecode(text) ?? text;
}
