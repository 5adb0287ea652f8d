import { expect, test } from 'vitest';
import { csvBelow } from './csv.ts';

const below = (text: string) =>
  csvBelow({ number: 1, lines: 1, start: 0, end: text.length, text, fault: '', isUnfinished: false });

test.each([
  ['id,name', ['id', 'name']],
  ['"id"; name;city', ['id', 'name', 'city']],
  ['name\tid\r', ['name', 'id']],
])('%j is a header row', (text, columns) => {
  expect(below(text)).toMatchObject({
    columns,
    header: `${text}\n`,
    mark: { number: 1, start: text.length + 1 },
  });
});

test.each(['a,A,4', 'ID,NAME', '"id', '', '{"id":1}'])('%j is no header row', (text) => {
  expect(below(text)).toBeUndefined();
});

test('cells have the type of their field; an invalid value stays text, an empty cell is omitted', () => {
  const csv = below('id,name,latitude,room_count,images,registry_id,channel_id')!;
  const [row, wrong] = csv.read([
    '007,"A ""b"", c",-9.5,12,"[{""url"":""https://a/b""}]",9007199254740991,\r',
    'a,A,north,1e1,[,,12',
  ]);
  expect(row).toEqual({
    id: '007',
    name: 'A "b", c',
    latitude: -9.5,
    room_count: 12,
    images: [{ url: 'https://a/b' }],
    registry_id: '9007199254740991',
  });
  expect(wrong).toEqual({
    id: 'a',
    name: 'A',
    latitude: 'north',
    room_count: 10,
    images: '[',
    channel_id: '12',
  });
});

test('cells are trimmed, the texts for null of databases are empty, and integers may have decimals', () => {
  const csv = below('id,name,city,latitude,registry_id,images')!;
  expect(csv.read([' a , "A, B" ,\\N,NULL,519819.0,\\N', 'b,NULL," Rome ","",7,NULL'])).toEqual([
    { id: 'a', name: 'A, B', city: '', latitude: '', registry_id: '519819', images: [] },
    { id: 'b', name: 'NULL', city: 'Rome', registry_id: '7', images: [] },
  ]);
});

test('a row that repeats the header is no hotel', () => {
  const csv = below('id,name')!;
  expect(csv.read(['"id", name', 'name,id'])).toEqual([undefined, { id: 'name', name: 'id' }]);
});

test('an invalid row of CSV does not affect its neighbours', () => {
  const csv = below('id,name')!;
  const rows = csv.read(['a,A', 'b,"B"x', 'c', 'd,D']);
  expect(rows.map((row) => (row instanceof Error ? row.message : row))).toEqual([
    { id: 'a', name: 'A' },
    'not valid CSV: check its quotes',
    'it has 1 cells, the header row names 2 fields',
    { id: 'd', name: 'D' },
  ]);
});

test('a long cell of digits is no number, in time in proportion to its length', () => {
  const digits = `${'1'.repeat(300_000)}x`;
  expect(below('id,name,latitude')!.read([`a,A,${digits}`])).toEqual([
    { id: 'a', name: 'A', latitude: digits },
  ]);
});
