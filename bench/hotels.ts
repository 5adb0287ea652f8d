import type { Sql } from 'postgres';

/** Expected hotel of the contract, derived from SQL alone, with which the responses of all targets are compared. */
export interface ExpectedHotel {
  id: string;
  channelId: string | null;
  /** JSON for a key with the scope */
  json: string;
  /** bytes of the JSON in UTF-8 */
  fullBytes: number;
  /** bytes with registry_id null */
  narrowBytes: number;
}

const DAY = `'YYYY-MM-DD'`;
const SELECT = `select id, name, description, address, postal_code, city, country_code, latitude, longitude, language,
  star_rating::float8, room_count, website_url, email, images,
  coalesce((now() at time zone 'utc')::date between certified_from and certified_until, false) as certified,
  to_char(certified_from, ${DAY}) as certified_from, to_char(certified_until, ${DAY}) as certified_until,
  certification_url, channel_id, registry_id::float8
  from hotels order by id collate "C"`;

/** Reads the hotels of a database in the order of the list: all, or a page. */
export async function readHotels(
  sql: Sql,
  page?: { offset: number; limit: number },
): Promise<ExpectedHotel[]> {
  const hotels: ExpectedHotel[] = [];
  const part = page ? ` offset ${page.offset} limit ${page.limit}` : '';
  await sql.unsafe(SELECT + part).cursor(2_000, (rows) => {
    for (const row of rows) {
      if (!row.certified) row.certification_url = null;
      row.images = row.images.map(({ url, caption = null }: { url: string; caption?: string | null }) => ({
        url,
        caption,
      }));
      const json = JSON.stringify(row);
      const fullBytes = Buffer.byteLength(json);
      const narrowBytes = fullBytes - JSON.stringify(row.registry_id).length + 'null'.length;
      hotels.push({ id: row.id, channelId: row.channel_id, json, fullBytes, narrowBytes });
    }
  });
  return hotels;
}

/** Returns the parsed hotel for a key with or without the scope. */
export function hotelFor(hotel: ExpectedHotel, scoped: boolean): unknown {
  const value = JSON.parse(hotel.json);
  return scoped ? value : { ...value, registry_id: null };
}
