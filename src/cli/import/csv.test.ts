import { expect, test } from 'vitest';
import { parseRows, readHeader } from './csv.ts';

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

test('an open quote makes its line wrong, and takes no other with it', () => {
  const rows = ['a,"A', 'b,B', 'c,"C', 'd,"D, ""the"" hotel"'];
  const wrong = new Error('not valid CSV: check its quotes, and that it is one line');
  expect(read('id,name', rows)).toEqual([
    wrong,
    { id: 'b', name: 'B' },
    wrong,
    { id: 'd', name: 'D, "the" hotel' },
  ]);
});
