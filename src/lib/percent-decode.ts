/** Returns a percent-encoded text decoded; undefined if it is not percent-encoded UTF-8. */
export function percentDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
