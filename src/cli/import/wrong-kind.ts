import { Failure } from '../../lib/failure.ts';
import type { Line } from '../common/lines.ts';
import type { Source } from '../common/source.ts';

const BEGINNING_BYTES = 4 * 1024;
/** Kinds of files by their beginning, of which each byte is a character, with a remedy. */
const KINDS: [beginning: RegExp, kind: string, remedy: string][] = [
  [/^\x28\xb5\x2f\xfd/, 'compressed with zstd', 'Unpack it: zstd -dc FILE | hotel-api import -'],
  [/^PK[\x03\x05]/, 'a zip archive or an Excel workbook', 'Unpack it, or save the sheet as CSV UTF-8.'],
  [/^(\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|\0[^\0]\0[^\0])/, 'UTF-16', 'Convert it: iconv -f UTF-16 -t UTF-8'],
  [
    /^(BZh|\xfd7zXZ|7z\xbc\xaf|\x1f\x8b)/,
    'packed by another program than gzip, or twice',
    'Unpack it first.',
  ],
  [/^\s*</, 'HTML or XML', 'It may be an error page: look at it.'],
  [/^[^[{,;\t\n]*\|/, 'separated by pipes', 'Ask for commas, semicolons or tabs.'],
];

/** Throws a `Failure` for a source that is neither NDJSON nor CSV, by its beginning and its first line. */
export async function rejectWrongKind(source: Source, line: Line | undefined): Promise<void> {
  const beginning = (await source.slice(0, BEGINNING_BYTES)).toString('latin1').replace(/^\xef\xbb\xbf/, '');
  let [, kind, remedy] = KINDS.find(([pattern]) => pattern.test(beginning)) ?? [];
  if (/^\s*\[/.test(beginning) && !beginsLines(line?.text?.trim()))
    [kind, remedy] = ['a JSON array in one line', 'Write one hotel a line: jq -c ".[]" FILE'];
  if (kind)
    throw new Failure(`${source.name} is ${kind}, not NDJSON or CSV in UTF-8, gzipped or not. ${remedy}`, 2);
}

/** Returns true for the beginning of an array with at most one hotel a line. */
function beginsLines(text = ']'): boolean {
  return text === '[' || (!text.endsWith(']') && !/\}\s*,\s*\{\s*"id"/.test(text));
}
