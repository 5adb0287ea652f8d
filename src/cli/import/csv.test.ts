import { describe, expect, test } from 'vitest';
import { type Line, readLines } from '../common/source.ts';
import { joinRows, parseRows, readHeader } from './csv.ts';

const MIB = 1024 * 1024;
const read = (header: string, rows: string[]) => parseRows(rows, readHeader(header)!);

test('cells have the type of their field; an invalid value stays text, an empty cell is omitted', () => {
  const [row, wrong] = read('id,name,latitude,room_count,images,registry_id,channel_id', [
    '007,"A ""b"", c",-9.5,12,"[{""url"":""https://a/b""}]",9007199254740991,\r',
    'a,A,north,1e1,[,,12',
  ]);
  expect(row).toEqual({
    ...{ id: '007', name: 'A "b", c', latitude: -9.5, room_count: 12 },
    ...{ images: [{ url: 'https://a/b' }], registry_id: '9007199254740991' },
  });
  expect(wrong).toEqual({
    ...{ id: 'a', name: 'A', latitude: 'north', room_count: 10, images: '[', channel_id: '12' },
  });
});

test('cells are trimmed, the texts for null of databases are empty, and integers may have decimals', () => {
  const rows = [' a , "A, B" ,\\N,NULL,519819.0,\\N', 'b,NULL," Rome ","",7,NULL'];
  expect(read('id,name,city,latitude,registry_id,images', rows)).toEqual([
    { id: 'a', name: 'A, B', city: '', latitude: '', registry_id: '519819', images: [] },
    { id: 'b', name: 'NULL', city: 'Rome', registry_id: '7', images: [] },
  ]);
});

test('a long cell of digits is no number, in time in proportion to its length', () => {
  const digits = `${'1'.repeat(300_000)}x`;
  expect(read('id,name,latitude', [`a,A,${digits}`])).toEqual([{ id: 'a', name: 'A', latitude: digits }]);
});

describe('rows over several lines', () => {
  async function join(content: string, pieceBytes = 64 * 1024): Promise<Line[]> {
    const bytes = Buffer.from(content);
    async function* pieces(): AsyncGenerator<Buffer> {
      for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
    }
    const rows: Line[] = [];
    for await (const some of joinRows(readLines(pieces()), ',')) rows.push(...some);
    return rows;
  }
  const texts = async (content: string, pieceBytes?: number) =>
    (await join(content, pieceBytes)).map(({ number, text, fault }) => [number, text ?? fault]);

  test('end outside quotes, and have the number and bytes of their lines', async () => {
    const content = 'a,"x\n""y"" \r\n\n",b\n"c"\n';
    expect(await texts(content)).toEqual([
      [1, 'a,"x\n""y"" \r\n\n",b'],
      [5, '"c"'],
    ]);
    const [first] = await join(content);
    expect(String(first!.bytes)).toBe(first!.text);
  });

  test('do not depend on the boundaries of the chunks', async () => {
    const rows = Array.from({ length: 3000 }, (_, i) => `${i},"${'""\n,'.repeat(i % 97)}"`);
    expect((await join(`${rows.join('\n')}\n`)).map(({ text }) => text)).toEqual(rows);
    const few = rows.slice(0, 99);
    expect((await join(few.join('\n'), 7)).map(({ text }) => text)).toEqual(few);
  });

  test('have at most 1 MiB, and a line that is not UTF-8 ends them', async () => {
    const rows = Array.from({ length: 40_000 }, (_, i) => `${i},${'x'.repeat(40)}`);
    const found = await texts(`"open\n${rows.join('\n')}\n"`);
    expect(found[0]![1]).toMatch(/^a quote is not closed: it would swallow 2\d,\d{3} lines after it$/);
    expect(found.slice(1, -1).map(([, text]) => text)).toEqual(rows);
    const [open] = await texts(`a,"x\n${'y'.repeat(MIB + 1)}\nb"\n`);
    expect(open![1]).toMatch(/^a quote is not closed/);
  });
});
