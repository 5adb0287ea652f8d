import { expect, test } from 'vitest';
import { BEGINNING, type Line, readLines } from '../common/lines.ts';
import { csvBelow } from './csv.ts';
import { NDJSON } from './json.ts';
import { joinLines } from './records.ts';

const MIB = 1024 * 1024;
const HEADER = { number: 1, lines: 1, start: 0, end: 7, text: 'id,name', fault: '', isUnfinished: false };
const ROWS = csvBelow(HEADER)!;

async function join(
  content: string,
  rules: Parameters<typeof joinLines>[1] = ROWS,
  pieceBytes = 64 * 1024,
): Promise<Line[]> {
  const bytes = Buffer.from(content);
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
  }
  const records: Line[] = [];
  for await (const some of joinLines(readLines(pieces(), BEGINNING), rules)) records.push(...some);
  return records;
}
const texts = async (...args: Parameters<typeof join>) =>
  (await join(...args)).map(({ number, lines, text, fault }) => [number, lines, text ?? fault]);

test('a row of CSV ends outside quotes, and has the numbers and bytes of its lines', async () => {
  const content = 'a,"x\n""y"" \r\n\n",b\n\n"c"\n';
  expect(await texts(content)).toEqual([
    [1, 4, 'a,"x\n""y"" \r\n\n",b'],
    [6, 1, '"c"'],
  ]);
  const [first] = await join(content);
  expect(content.slice(first!.start, first!.end)).toBe(first!.text);
});

test('rows do not depend on the boundaries of the chunks', async () => {
  const rows = Array.from({ length: 3000 }, (_, i) => `${i},"${'""\n,'.repeat(i % 97)}"`);
  expect((await join(`${rows.join('\n')}\n`)).map(({ text }) => text)).toEqual(rows);
  expect((await join(rows.slice(0, 99).join('\n'), ROWS, 7)).map(({ text }) => text)).toEqual(
    rows.slice(0, 99),
  );
});

test('an unclosed quote makes its line wrong and no other, and says how many it would swallow', async () => {
  expect(await texts('a,A\nb,"B\nc,C\n\nd,D\n')).toEqual([
    [1, 1, 'a,A'],
    [2, 1, 'a quote is not closed: it would swallow 3 lines after it'],
    [3, 1, 'c,C'],
    [5, 1, 'd,D'],
  ]);
  expect(await texts('a,A\nb,"B')).toEqual([
    [1, 1, 'a,A'],
    [2, 1, 'a quote is not closed'],
  ]);
});

test('quotes that do not enclose a cell take no line with them', async () => {
  expect(await texts('a,5" wide\nb,B\nc,7" wide\nd,D\n')).toEqual([
    [1, 1, 'a quote is not closed: it would swallow 2 lines after it'],
    [2, 1, 'b,B'],
    [3, 1, 'a quote is not closed: it would swallow 1 line after it'],
    [4, 1, 'd,D'],
  ]);
});

test('a record has at most 1 MiB, and a line that is not UTF-8 ends it', async () => {
  const rows = Array.from({ length: 40_000 }, (_, i) => `${i},${'x'.repeat(40)}`);
  const records = await texts(`"open\n${rows.join('\n')}\n"`);
  expect(records[0]![2]).toMatch(/^a quote is not closed: it would swallow 2\d,\d{3} lines after it$/);
  expect(records.slice(1, -1).map(([, , text]) => text)).toEqual(rows);
  const [open] = await texts(`a,"x\n${'y'.repeat(MIB + 1)}\nb"\n`);
  expect(open![2]).toMatch(/^a quote is not closed/);
});

test('open quotes in every line are searched for their end in one line each', async () => {
  let searched = 0;
  const rules = {
    ...ROWS,
    opens: () => () => {
      searched++;
      return true;
    },
    isRecord: () => false,
  };
  expect(await join('x"\n'.repeat(3_000), rules)).toHaveLength(3_000);
  expect(searched).toBeLessThan(3_000);
});

test('an object of JSON may span lines, as printers with indentation write arrays', async () => {
  const hotels = [
    { id: 'a', images: [{ url: 'https://a/b' }] },
    { id: 'b', name: 'B' },
  ];
  const printed = JSON.stringify(hotels, null, 2).split('\n');
  expect(await texts(printed.join('\n'), NDJSON)).toEqual([
    [1, 1, '['],
    [2, 8, printed.slice(1, 9).join('\n')],
    [10, 4, printed.slice(9, 13).join('\n')],
    [14, 1, ']'],
  ]);
  expect(await texts('{\n{\n}\n', NDJSON)).toEqual([
    [1, 1, 'a brace is not closed: it would swallow 1 line after it'],
    [2, 2, '{\n}'],
  ]);
});

test('an open brace of JSON is followed for 200 lines', async () => {
  let searched = 0;
  const opens = (text: string) => {
    const closes = NDJSON.opens(text);
    return (
      closes &&
      ((line: string) => {
        searched++;
        return closes(line);
      })
    );
  };
  const braces = Array.from({ length: 30 }, (_, i) => `${' '.repeat(i)}{\n`).join('');
  const records = await texts(`${braces}${'x\n'.repeat(9_000)}`, { ...NDJSON, opens });
  expect(records[0]).toEqual([1, 1, 'a brace is not closed: it would swallow 200 lines after it']);
  expect(records).toHaveLength(9_030);
  expect(searched).toBeLessThanOrEqual(30 * 200);
});
