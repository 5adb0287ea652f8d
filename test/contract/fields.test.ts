import { describe, expect, it } from 'vitest';
import { Hotel } from '../../src/hotels/hotel.ts';
import type { HttpResponse } from '../support/client.ts';
import { exampleRow, type HotelRow } from '../support/rows.ts';
import { startService } from '../support/service.ts';

const DAY_MS = 86_400_000;
const FIELDS = Object.keys(Hotel.properties);
const complete: Partial<HotelRow> = {
  ...exampleRow(),
  id: 'complete',
  name: 'Grand Hôtel "Zur Sonne"',
  postal_code: '06353',
  star_rating: 4.5,
  website_url: 'https://sonne.example/?a=1&b=%222%22',
  email: 'reception@sonne.example',
  images: [
    { url: 'https://cdn.example/3.jpg', caption: 'Third first' },
    { url: 'https://cdn.example/1.jpg', caption: null },
    { url: 'https://cdn.example/2.jpg' },
  ],
  certified_from: '2020-02-29',
  certified_until: '2020-12-31',
  certification_url: 'https://badge.example/complete',
  channel_id: 'CH-complete',
  registry_id: 500001,
};

const odd: Partial<HotelRow> = {
  id: 'odd',
  name: '"\\/\b\f\n\r\t\u0001\u001f\u007f',
  description: '\u2028\u2029 \ufeff\ufffd\uffff 😀👩‍👩‍👧 é e\u0301 中文 العربية </script> %00 null}',
  address: '","registry_id":7}',
  city: '',
  images: [{ url: "https://cdn.example/'", caption: '\u0001"],[' }],
  channel_id: '"odd" \\ 😀',
  registry_id: 500002,
};

const service = await startService({ hotels: [complete, { id: 'empty', name: 'Empty' }, odd] });

async function one(id: string, key = 'full'): Promise<HttpResponse> {
  const response = await service.get(`/hotels/${id}`, { key });
  expect(response.status).toBe(200);
  return response;
}

describe('the fields of a hotel', () => {
  it('are all, in the order of the document', async () => {
    for (const id of ['complete', 'empty', 'odd'])
      for (const key of ['full', 'narrow']) expect(Object.keys((await one(id, key)).json())).toEqual(FIELDS);
  });

  it('contain the stored values, with quotes, control characters and all of Unicode', async () => {
    const images = complete.images!.map(({ url, caption = null }) => ({ url, caption }));
    const hotel = (await one('complete')).json();
    expect(hotel).toEqual({ ...complete, images, certified: false, certification_url: null });
    for (const image of hotel.images) expect(Object.keys(image)).toEqual(['url', 'caption']);
    expect((await one('odd')).json()).toMatchObject(odd);
  });

  it('are null without a value, and an empty array for images', async () => {
    const nothing = Object.fromEntries(FIELDS.map((field) => [field, null]));
    const expected = { ...nothing, id: 'empty', name: 'Empty', images: [], certified: false };
    expect((await one('empty')).json()).toEqual(expected);
  });

  it('represent ratings and coordinates as the stored numbers', async () => {
    for (const latitude of [0, -0.1278, 1e-7, 90, -89.99999999999999, 48.208_174_123_456_7])
      for (const star_rating of [0, 0.5, 4, 5]) {
        const id = await service.insert({ latitude, longitude: latitude * 2, star_rating });
        const hotel = await one(id);
        expect(hotel.json()).toMatchObject({ latitude, longitude: latitude * 2 });
        expect(hotel.text).toContain(`"star_rating":${star_rating},`);
      }
  });

  it.each(['0', '-5', '9007199254740991', '-9007199254740991'])(
    'represent a registry id of %s exactly',
    async (registry_id) => {
      const id = await service.insert({ registry_id });
      const { text } = await one(id);
      expect(text).toContain(`,"registry_id":${registry_id}}`);
      expect((await service.get(`/hotels/registry/${registry_id}`)).text).toBe(text);
    },
  );
});

describe('the two views', () => {
  it.each<[path: string, body?: object]>([
    ['/hotels?limit=1'],
    ['/hotels/complete'],
    ['/hotels/channel/CH-complete'],
    ['/hotels/channel/batch', { channel_ids: ['CH-complete'] }],
    // these require the scope
    ['/hotels/registry/500001'],
    ['/hotels/registry/batch', { registry_ids: [500001] }],
    ['/hotels?registry_id=500001'],
  ])('have the same bytes in every operation, and differ in registry_id only: %s %j', async (path, body) => {
    const send = (key: string) => (body ? service.post(path, body, { key }) : service.get(path, { key }));
    const { text } = await one('complete');
    expect(text).toContain('"registry_id":500001}');
    // the first responses come from the database, the later ones from caches
    for (let round = 0; round < 3; round++) {
      expect((await send('full')).text.replace(/^\[|\]$/g, '')).toBe(text);
      if (path.includes('registry')) continue;
      const narrow = text.replace('"registry_id":500001}', '"registry_id":null}');
      expect((await send('narrow')).text.replace(/^\[|\]$/g, '')).toBe(narrow);
    }
  });

  it('differ in registry_id only for values that look like the end of the JSON', async () => {
    const [full, narrow] = [await one('odd'), await one('odd', 'narrow')];
    expect(narrow.json()).toEqual({ ...full.json(), registry_id: null });
  });
});

it.each<[from: number | string | null, until: number | string | null, certified: boolean]>([
  [0, 0, true],
  [-1, 0, true],
  [0, 1, true],
  ['0001-01-01', '9999-12-31', true],
  [1, 30, false],
  [-30, -1, false],
  [1, -1, false],
  [null, 1, false],
  [-1, null, false],
  [null, null, false],
])('certified from day %s until day %s of today is %s', async (from, until, certified) => {
  let today: string;
  const todayNow = () => new Date().toISOString().slice(0, 10);
  const dateOf = (day: number | string | null) =>
    typeof day === 'number' ? new Date(Date.parse(today) + day * DAY_MS).toISOString().slice(0, 10) : day;
  for (const badge of ['https://badge.example/1', null]) {
    const stored = { certification_url: badge } as Partial<HotelRow>;
    let hotel: Partial<HotelRow>;
    // repeated if midnight falls between the two
    do {
      today = todayNow();
      Object.assign(stored, { certified_from: dateOf(from), certified_until: dateOf(until) });
      hotel = (await one(await service.insert(stored))).json();
    } while (today !== todayNow());
    expect(hotel).toMatchObject({ ...stored, certified, certification_url: certified ? badge : null });
  }
});
