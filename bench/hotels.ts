import type { Sql } from 'postgres';
import { HOTEL_COLUMNS } from '../src/hotels/row.ts';

/** Expected hotel of the contract, derived from the table, with which the responses of all targets are compared. */
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

const SELECT = `select ${HOTEL_COLUMNS},
  coalesce((now() at time zone 'utc')::date between certified_from and certified_until, false) as certified
  from hotels order by id collate "C"`;

/** Reads the hotels of a database in the order of the list: all, or a page. */
export async function readHotels(
  sql: Sql,
  page?: { offset: number; limit: number },
): Promise<ExpectedHotel[]> {
  const hotels: ExpectedHotel[] = [];
  const part = page ? ` offset ${page.offset} limit ${page.limit}` : '';
  await sql.unsafe(SELECT + part).cursor(2_000, (rows) => {
    for (const { certified, ...row } of rows) {
      if (!certified) row.certification_url = null;
      if (row.registry_id !== null) row.registry_id = Number(row.registry_id);
      row.images = row.images.map(({ url, caption = null }: { url: string; caption?: string | null }) => ({
        url,
        caption,
      }));
      const json = JSON.stringify(row).replace('"certified_from":', `"certified":${certified},$&`);
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
