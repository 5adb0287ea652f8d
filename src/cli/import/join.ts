import { LINE_LIMIT_BYTES, type Line } from '../common/lines.ts';
import { count } from '../common/progress.ts';

/** Rules of a format for records of several lines. */
export interface JoinRules {
  /** what opens such a record */
  opener: string;
  /** returns the test for the last line of the record that this line begins; undefined if the line is a whole record */
  opens(text: string): ((text: string) => boolean) | undefined;
  /** returns false for joined lines that are no record */
  isRecord(text: string): boolean;
}

/**
 * Joins the lines of each record that spans several, of at most 1 MiB, and omits blank lines. If a record is not closed,
 * only its first line is wrong, and reading continues at the next one: an open quote takes no other hotel with it.
 */
export async function* joinLines(chunks: AsyncIterable<Line[]>, rules: JoinRules): AsyncGenerator<Line[]> {
  let held: Line[] = [];
  for await (const chunk of chunks) {
    const records: Line[] = [];
    held = join([...held, ...chunk], rules, records, false);
    yield records;
  }
  const records: Line[] = [];
  join(held, rules, records, true);
  yield records;
}

/** Adds the records of these lines to `records`. Returns the last lines if their record may continue. */
function join(lines: Line[], rules: JoinRules, records: Line[], isEnd: boolean): Line[] {
  for (let at = 0; at < lines.length; at++) {
    const first = lines[at]!;
    const closes = first.text === undefined ? undefined : rules.opens(first.text);
    if (!closes) {
      if (first.text?.trim() !== '') records.push(first);
      continue;
    }
    const fits = (line: Line) => line.text !== undefined && line.end - first.start <= LINE_LIMIT_BYTES;
    let last = at + 1;
    while (last < lines.length && fits(lines[last]!) && !closes(lines[last]!.text!)) last++;
    const end = lines[last];
    if (!end && !isEnd) return lines.slice(at);
    const text = lines.slice(at, last + 1).map((line) => line.text);
    if (end && fits(end) && rules.isRecord(text.join('\n'))) {
      records.push({
        ...end,
        number: first.number,
        start: first.start,
        lines: text.length,
        text: text.join('\n'),
      });
      at = last;
    } else {
      const others = text.length > 1 ? `: it would swallow ${count('line')(text.length - 1)} after it` : '';
      records.push({ ...first, text: undefined, fault: `${rules.opener} is not closed${others}` });
    }
  }
  return [];
}
