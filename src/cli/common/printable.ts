/** Characters that control a terminal or the direction of text: C0 except tab and newline, DEL, C1, bidi controls. */
const COMMANDS = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Replaces each control character by its JSON escape, so that data cannot control a terminal. */
export function printable(text: string): string {
  return text.replace(COMMANDS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
