/** Characters that control a terminal or the direction of text: C0 except tab and newline, DEL, C1, bidi controls. */
const COMMANDS = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Prints the result of a command on standard output. With `asJson` that is one JSON document; for a person it is `shown` as a
 * table, or as lines of names and values, and then the note.
 */
export function print(
  asJson: boolean | undefined,
  result: object,
  note = '',
  shown: object | null = result,
): void {
  const lines = [...(shown === null ? [] : [rowsOf(shown)]), ...(note === '' ? [] : [note])];
  const text = asJson ? JSON.stringify(result, null, 2) : lines.join('\n');
  process.stdout.write(`${printable(text)}\n`);
}

/** Returns an object as lines of its names and values, and an array of objects as a table. */
export function rowsOf(result: object): string {
  if (!Array.isArray(result)) return inColumns(Object.entries(result));
  if (result.length === 0) return 'none';
  return inColumns([Object.keys(result[0]), ...result.map((each: object) => Object.values(each))]);
}

/** Returns rows of cells as a table for a terminal; empty cells are dashes. */
export function inColumns(rows: unknown[][]): string {
  const textOf = (value: unknown) => String(value instanceof Date ? value.toISOString() : (value ?? ''));
  const cells = rows.map((row) => row.map((value) => textOf(value).replace(/\s/g, ' ') || '-'));
  const widths = cells[0]!.map(() => 0);
  for (const row of cells)
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column]!, cell.length);
  const lines = cells.map((row) => row.map((cell, column) => cell.padEnd(widths[column]!)).join('  '));
  return lines.map((line) => line.trimEnd()).join('\n');
}

/** Replaces each control character by its JSON escape, so that data cannot control a terminal. */
export function printable(text: string): string {
  return text.replace(COMMANDS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
