/** A row in the text format of PostgreSQL's COPY, with its newline. Objects are written as JSON, null and undefined as null. */
export function copyRow(values: readonly unknown[]): string {
  return `${values.map(copyField).join('\t')}\n`;
}

function copyField(value: unknown): string {
  if (value === null || value === undefined) return '\\N';
  if (typeof value === 'string') return escapeText(value);
  return typeof value === 'object' ? escapeText(JSON.stringify(value)) : String(value);
}

const SPECIAL = /[\\\t\n\r]/;
const ESCAPES: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

function escapeText(text: string): string {
  return SPECIAL.test(text) ? text.replace(/[\\\t\n\r]/g, (character) => ESCAPES[character]!) : text;
}
