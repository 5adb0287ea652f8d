/** All that a terminal obeys or that turns the direction of writing: C0 but for tab and newline, DEL, C1, bidi controls. */
const COMMANDS = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** The text with each control character written as its JSON escape, so that data commands no terminal. */
export function printable(text: string): string {
  return text.replace(COMMANDS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
