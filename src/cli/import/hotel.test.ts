import { expect, test } from 'vitest';
import { IMPORTED_COLUMNS, readHotel } from './hotel.ts';
import { parseHotel as parse } from './records.ts';

const check = (line: string) => readHotel(parse(line));
/** Returns the hotel of a line; throws its fault. */
const parseHotel = (line: string) => {
  const { hotel, fault } = check(line);
  if (fault !== undefined) throw new Error(fault);
  return hotel;
};
const read = (more: object) => parseHotel(JSON.stringify({ id: 'a', name: 'A', ...more }));

test('id and name suffice: other fields are null, the images are empty', () => {
  const hotel = read({});
  expect(Object.keys(hotel)).toEqual(IMPORTED_COLUMNS);
  expect(Object.values(hotel).filter((value) => value !== null)).toEqual(['a', 'A', []]);
});

test('a hotel of the API is accepted at the bounds of its values; certified is ignored', () => {
  const bounds = { latitude: -90, longitude: 180, star_rating: 4.5, room_count: 0 };
  const dates = { certified_from: '2028-02-29', certified_until: '9999-12-31' };
  const hotel = { ...bounds, ...dates, description: 'line\nline', language: 'pt', email: 'a@example.com' };
  const { certified, ...found } = read({ ...hotel, certified: 'anything' }) as Record<string, unknown>;
  expect(certified).toBeUndefined();
  expect(found).toMatchObject(hotel);
});

test('a registry id keeps all its digits, and one that JavaScript would round into the bounds is rejected', () => {
  const of = (written: string) => parseHotel(`{"id":"a","name":"A","registry_id":${written}}`).registry_id;
  expect([of('9007199254740991'), of('"-9007199254740991"'), of('"0500001"')]).toEqual([
    ...['9007199254740991', '-9007199254740991', '500001'],
  ]);
  expect(() => of('9007199254740993')).toThrow('registry_id must be');
});

test.each([
  [
    { id: '' },
    'id must be a string of 1 to 255 characters, without NUL and broken characters, other than "." and ".."',
  ],
  [{ description: 'a\0b' }, 'description must be a string without NUL and broken characters or null'],
  [{ latitude: 90.1 }, 'latitude must be a number from -90 to 90 or null'],
  [{ star_rating: 4.3 }, 'star_rating must be a number from 0 to 5 in steps of 0.5 or null'],
  [
    { website_url: 'example.com' },
    'website_url must be an http or https URI or IRI, as a URI of at most 2048 characters, or null',
  ],
  [{ email: 'a@b' }, 'email must be an e-mail address in ASCII with a dot in its domain or null'],
  [{ images: Array(4).fill({ url: 'https://a/b' }) }, 'images must be an array of at most 3 images'],
  [{ images: [{ url: '/img/1.jpg' }] }, 'images/0/url must be an http or https URI or IRI'],
  [{ images: [{ url: 'https://a/b', caption: 1 }] }, 'images/0/caption must be'],
  [{ images: [{ url: 'https://a/b', size: 1 }] }, 'unknown field "images/0/size"'],
  [{ certified_from: '2027-02-29' }, 'certified_from must be a real date, YYYY-MM-DD, or null'],
  [
    { registry_id: 1.5 },
    'registry_id must be an integer within ±(2^53-1) or a string that holds one or null',
  ],
  [{ stars: 4 }, 'unknown field "stars"'],
])('%j is rejected: %s', (fields, reason) => {
  expect(() => read(fields)).toThrow(reason);
});

test.each<[field: string, ...wrong: unknown[]]>([
  ['name', '', null],
  ['city', '\ud800'],
  ['country_code', 'PRT'],
  ['latitude', '1'],
  ['longitude', -181],
  ['language', 'por'],
  ['room_count', 2 ** 31, 1.5],
  ['website_url', `https://größe.de/${'ß'.repeat(400)}`, `https:${'x'.repeat(2048)}`, 'javascript:alert(1)'],
  ['images', null, [{ caption: 'x' }]],
  ['certified_until', '0000-01-01', '2027-01-01T00:00:00Z'],
  ['channel_id', 5, 'x'.repeat(256)],
  ['registry_id', '1e3', '9007199254740992', 1e20],
])('%s is rejected if it is wrong', (field, ...wrong) => {
  for (const value of wrong) expect(() => read({ [field]: value })).toThrow(`${field} must be`);
});

test('IRIs are converted to URIs in all fields, blanks are encoded, and both are counted', () => {
  const { hotel, convertedUris } = check(
    JSON.stringify({
      id: 'a',
      name: 'A',
      website_url: 'https://größe.de/',
      certification_url: 'https://example.com/already%20',
      images: [
        { url: 'https://cdn.example.com/見.jpg' },
        { url: 'https://cdn.example.com/a b.jpg' },
        { url: 'https://cdn.example.com/2.jpg' },
      ],
    }),
  );
  const { website_url, certification_url, images } = hotel;
  expect([website_url, certification_url, images!.map(({ url }) => url), convertedUris]).toEqual([
    'https://xn--gre-6ka8i.de/',
    'https://example.com/already%20',
    [
      'https://cdn.example.com/%E8%A6%8B.jpg',
      'https://cdn.example.com/a%20b.jpg',
      'https://cdn.example.com/2.jpg',
    ],
    3,
  ]);
});

test('an empty text is null where null is allowed', () => {
  const images = [{ url: 'https://a/b', caption: '' }];
  const line = JSON.stringify({ id: 'a', name: 'A', city: '', latitude: '', channel_id: '', images });
  expect(check(line)).toMatchObject({
    hotel: { city: null, latitude: null, channel_id: null, images: [{ url: 'https://a/b', caption: null }] },
  });
});

test('all wrong fields of a line are named, each once', () => {
  const images = [{ url: 'x', caption: 5, size: 7 }];
  const { fault } = check(JSON.stringify({ latitude: 91, email: 'nobody', stars: 4, images }));
  const faults = fault!.split('; ').map((each) => /^.* must be|.*/.exec(each)![0]);
  const wrong = ['email', 'images/0/caption', 'images/0/url', 'latitude'].map((field) => `${field} must be`);
  const unknown = ['unknown field "images/0/size"', 'unknown field "stars"'];
  expect(faults.sort()).toEqual([...wrong, ...unknown, 'id is missing', 'name is missing'].sort());
});

test('a line with thousands of wrong fields is rejected by the first of them', () => {
  const wrong = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`k${i}`, 0]));
  const { fault } = check(JSON.stringify({ id: 'a', name: 'A', ...wrong }));
  expect(fault).toMatch(/^unknown field "k0"; .*; unknown field "k19"; and 4980 more faults$/);
});

test('characters are counted like in PostgreSQL', () => {
  expect(read({ channel_id: '😀'.repeat(255) }).channel_id).toHaveLength(510);
});

test.each(['{', '[[]]', '1', 'null', '"x"', '{"id":"a"} {}'])('%s is no hotel', (line) => {
  expect(check(line)).toMatchObject({ hotel: {}, fault: expect.stringMatching(/^not /) });
});
