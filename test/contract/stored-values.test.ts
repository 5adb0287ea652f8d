import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect, it } from 'vitest';
import { readHotel } from '../../src/cli/import/hotel.ts';
import { Hotel, valueSchemaOf } from '../../src/hotels/hotel.ts';
import { FIELDS_OF_ROW } from '../../src/hotels/row.ts';
import { ApiDocument } from '../support/openapi.ts';
import { exampleRow, insertHotels } from '../support/rows.ts';
import { startService } from '../support/service.ts';

const MAX_URI = 2048;
const MAX_EMAIL = 254;
const CHECK_VIOLATION = '23514';
const site = 'https://hotel.example/';
const uriOf = (length: number) => site + 'x'.repeat(length - site.length);
const emailOf = (length: number) => `${'x'.repeat(length - '@hotel.example'.length)}@hotel.example`;

const GOOD_URIS = [
  ...['https://hotel.example'],
  ...['HTTP://Hotel.Example:8080/A/b;c=1,2?d=e/f?g&h=[1]#i/j?k'.replace(/[[\]]/g, '')],
  ...["https://u:p@192.0.2.7:/~a/!$&'()*+,;=:@%2F?%00#", 'https://xn--gre-6ka8i.de/%C3%9F'],
  ...['http://localhost//?#', uriOf(MAX_URI)],
];
const BAD_URIS = [
  ...['', 'not a uri', 'hotel.example', '//hotel.example/', '/path', 'https:hotel.example', 'https://'],
  ...['https:///path', 'https://?query', 'ftp://hotel.example/', 'javascript:alert(1)'],
  ...[' https://hotel.example/', 'https://hotel.example/\n', 'https://hotel.example/a b'],
  ...['https://größe.de/', 'https://hotel.example/ß', 'https://hotel.example/"', 'https://hotel.example/<a>'],
  ...['https://hotel.example/{a}|\\^`', 'https://hotel.example/%', 'https://hotel.example/%2'],
  ...['https://hotel.example/%zz', 'https://hotel.example/[1]', 'https://hotel.example/#a#b'],
  ...['https://hotel.example:port/', 'https://hotel.example:123456/', 'https://a@b@hotel.example/'],
  ...['https://[1]/', uriOf(MAX_URI + 1), uriOf(3000)],
];
const GOOD_EMAILS = [
  ...['a@b.c', "o'neill.x+y@front-desk.hotel.example", '!#$%&*+/=?^_`{|}~-@7.8', emailOf(MAX_EMAIL)],
];
const BAD_EMAILS = [
  ...['', 'a', 'a@b', '@b.c', 'a@', 'a@b@c.d', 'a b@c.d', 'a@b..c', 'a@.b.c', 'a@b.c.', 'a@-b.c', 'a@b-.c'],
  ...['.a@b.c', 'a.@b.c', 'a..b@c.d', 'ä@b.c', 'a@größe.de', '"a b"@c.d', 'a@[192.0.2.7]', 'a@b.c\n'],
  ...[`a@${'b'.repeat(64)}.c`, emailOf(MAX_EMAIL + 1)],
];

const service = await startService();
const document = new ApiDocument((await service.get('/openapi.json', { key: 'none' })).text);
const ajv = new Ajv2020({ allowUnionTypes: true });
(addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
const { Hotel: Documented, Image } = document.json.components.schemas;
/** Returns true if the document's schema of this property accepts the value. */
const schemaAccepts = (property: string, value: unknown): boolean =>
  ajv.validate(property === 'images' ? Image.properties.url : Documented.properties[property], value);

/** Fields with a URI in each place. */
const withUri = (uri: string): object[] => [
  { website_url: uri },
  { certification_url: uri },
  { images: [{ url: 'https://cdn.example/1.jpg' }, { url: uri, caption: 'A view' }] },
];

/** Reads a line of an import with these values. */
const imported = (fields: object) => readHotel(JSON.parse(JSON.stringify({ id: 'a', name: 'A', ...fields })));

/** Stores and imports values, and validates the response against the document. */
async function expectStored(fields: object): Promise<void> {
  const [id] = await insertHotels(service.sql, [fields]);
  const response = await service.get(`/hotels/${id}`);
  expect(response.status).toBe(200);
  document.check('GET', `/hotels/${id}`, response);
  expect(imported(fields).fault).toBeUndefined();
}

/** Fails unless both an insert and an update of the values are rejected, and an import with this fault if there is one. */
async function expectRejected(fields: object, fault?: string): Promise<void> {
  await expect(insertHotels(service.sql, [fields])).rejects.toMatchObject({ code: CHECK_VIOLATION });
  const [id] = await insertHotels(service.sql, [{}]);
  const update = service.sql`update hotels set ${service.sql(fields as never)} where id = ${id!}`;
  await expect(update).rejects.toMatchObject({ code: CHECK_VIOLATION });
  if (fault) expect(imported(fields).fault).toContain(fault);
}

it.each(GOOD_URIS)('the URI is stored, served and imported: %j', async (uri) => {
  for (const fields of withUri(uri)) await expectStored(fields);
});

it.each(BAD_URIS)(
  'the URI is rejected by the table, and by the import if it does not convert it: %j',
  async (uri) => {
    // blanks are encoded, IRIs converted, and an empty text is null
    const isConverted = !/^[\0-\x1f\x21-\x7f]+$/.test(uri) && uri !== 'not a uri';
    for (const fields of withUri(uri)) await expectRejected(fields, isConverted ? undefined : 'must be');
  },
);

it('blanks in a URL are encoded by the import as by browsers, and counted; the table rejects them', async () => {
  const blanks = 'https://hotel.example/a b.jpg?c= d#e  f';
  const encoded = withUri(new URL(blanks).href);
  for (const [i, fields] of withUri(blanks).entries()) {
    await expectRejected(fields);
    const { hotel, fault, convertedUris } = imported(fields);
    expect([fault, convertedUris, hotel]).toMatchObject([undefined, 1, encoded[i]]);
    await expectStored(encoded[i]!);
  }
});

it.each(GOOD_EMAILS)('the e-mail address is stored, served and imported: %j', async (email) => {
  await expectStored({ email });
});

it.each(BAD_EMAILS)('the e-mail address is rejected by the table and the import: %j', async (email) => {
  await expectRejected({ email }, email === '' ? undefined : 'email must be');
});

it.each(['.', '..'])('an id that no URL can name is rejected by the table and the import: %s', async (id) => {
  await expectRejected({ id }, 'id must be ');
  await expectRejected({ channel_id: id }, 'channel_id must be ');
});

it.each(FIELDS_OF_ROW)('%s has its bounds in a constraint of sql/ too', async (field) => {
  const { type, format, maxLength = 65_535, minimum } = valueSchemaOf(Hotel.properties[field]);
  if (minimum !== undefined) await expectRejected({ [field]: minimum - 1 });
  if (type === 'string' && format !== 'date') await expectRejected({ [field]: 'x'.repeat(maxLength + 1) });
});

it('a registry id is within the integers that JSON clients represent exactly', async () => {
  for (const registry_id of [-(2 ** 53 - 1), 0, 2 ** 53 - 1]) await expectStored({ registry_id });
  for (const registry_id of ['9007199254740992', '-9007199254740992', '9223372036854775807'])
    await expectRejected({ registry_id });
});

it('the JSON of a hotel has at most 64 KiB, of which hotel_json_fits counts every field', async () => {
  const { id: _, images: _images, ...example } = exampleRow();
  const others = { ...example, channel_id: null, registry_id: null };
  const sizeOf = async (description: string) => {
    const [id] = await insertHotels(service.sql, [{ ...others, description }]);
    return (await service.get(`/hotels/${id}`)).body.length;
  };
  const MAX_BYTES = 64 * 1024;
  const size = await sizeOf('');
  for (const character of ['x', '"', '\x01', 'é', '😀']) {
    const bytes = Buffer.byteLength(JSON.stringify(character)) - 2;
    // tens of bytes less, for longer ids and numbers in the JSON of PostgreSQL
    const fitting = Math.floor((MAX_BYTES - size - 50) / bytes);
    expect(await sizeOf(character.repeat(fitting))).toBeLessThanOrEqual(MAX_BYTES);
    // stored if the function of sql/ lacked a field
    const tooLong = character.repeat(Math.floor((MAX_BYTES - size) / bytes) + 1);
    await expectRejected({ ...others, description: tooLong });
  }
});

it('the limit of the JSON counts all digits of coordinates, also if the session of the writer shows fewer', async () => {
  const values = FIELDS_OF_ROW.map(
    (field) => `${field} => ${field === 'description' ? `repeat('x', length)` : field}`,
  );
  const coordinates = { latitude: 48.12345678901235, longitude: 11.98765432109876 };
  const hotel = JSON.stringify({ ...exampleRow(), ...coordinates });
  const longestWith = (digits: number) =>
    service.sql.begin(async (transaction) => {
      await transaction`select set_config('extra_float_digits', ${String(digits)}, true)`;
      const [row] = await transaction`
        select max(length)::int as length
        from generate_series(64000, 65400) length, jsonb_populate_record(null::hotels, ${hotel}::text::jsonb)
        where hotel_json_fits(${transaction.unsafe(values.join())})`;
      return row!.length;
    });
  const longest = await longestWith(1);
  expect(longest).toBeLessThan(65_400);
  expect(await longestWith(-15)).toBe(longest);
});

it('values that the document forbids are rejected by the table', () => {
  const rejected = (property: string, values: string[]) =>
    values.filter((value) => !schemaAccepts(property, value));
  for (const property of ['website_url', 'certification_url', 'images']) {
    expect(rejected(property, GOOD_URIS)).toEqual([]);
    expect(rejected(property, BAD_URIS).length).toBeGreaterThan(20);
  }
  expect(rejected('email', GOOD_EMAILS)).toEqual([]);
  expect(rejected('email', BAD_EMAILS).length).toBeGreaterThan(15);
  expect(schemaAccepts('registry_id', 2 ** 53)).toBe(false);
});

it('images are rejected for any other fault', async () => {
  const good = { url: 'https://cdn.example/1.jpg', caption: null };
  for (const images of [
    ...[{}, 'x', 1, null, [1], [[]], [null], [{}], [{ caption: 'x' }], [{ url: 7 }], [{ url: null }]],
    ...[['a'], [], {}, 1].map((caption) => [{ ...good, caption }]),
    ...[Array(4).fill(good), [good, good, { url: 'x' }]],
  ])
    await expect(
      service.sql`insert into hotels (id, name, images) values ('x', 'X', ${JSON.stringify(images)}::text::jsonb)`,
    ).rejects.toMatchObject({ code: CHECK_VIOLATION });
});
