/** Returns a row for `it.each` whose title shows the start of a text. */
export const titled = (text: string): [title: string, text: string] => [text.slice(0, 40), text];
