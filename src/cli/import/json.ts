import { BEGINNING } from '../common/lines.ts';
import type { Format } from './records.ts';

/**
 * NDJSON. Lines may also be elements of an array, with its brackets and commas around, and a hotel may span lines between
 * braces of the same indentation.
 */
export const NDJSON: Format = {
  name: 'ndjson',
  header: '',
  mark: BEGINNING,
  opener: 'a brace',
  maxLines: 200,
  opens(text) {
    const [, indent] = /^(\s*)\{\s*$/.exec(text) ?? [];
    if (indent === undefined) return undefined;
    // another opening brace in its place: the first is not closed
    const { length } = indent;
    return (line) => (line[length] === '}' || line[length] === '{') && line.startsWith(indent);
  },
  isRecord: (text) => !text.trimEnd().endsWith('{'),
  read: (texts) => texts.map(readElement),
};

function readElement(line: string): unknown {
  let text = line.trim();
  if (/^[[,]/.test(text)) text = text.slice(1);
  if (text.endsWith(']') || text.endsWith(',')) text = text.slice(0, -1);
  if (text.trim() === '') return undefined;
  try {
    return /"registry_id"\s*:\s*-?\d{16}/.test(text) ? JSON.parse(text, keepDigits) : JSON.parse(text);
  } catch (error) {
    return new Error(`not valid JSON: ${(error as Error).message}`);
  }
}

/** Leaves large registry ids as text, so that one beyond the bounds is rejected instead of rounded. */
function keepDigits(this: unknown, name: string, value: unknown, context?: { source?: string }): unknown {
  return name === 'registry_id' && typeof value === 'number' && !Number.isSafeInteger(value)
    ? context?.source
    : value;
}
