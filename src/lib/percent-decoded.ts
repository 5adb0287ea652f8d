/** Returns a percent-encoded text decoded, or as it is if its encoding is wrong. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
