import type { Hotel } from './hotel.ts';

/** Row of `hotels` as `HOTEL_COLUMNS` selects it. */
export type HotelRow = Omit<Hotel, 'certified' | 'images' | 'registry_id'> & {
  images: { url: string; caption?: string | null }[];
  /** decimal digits: a bigint may exceed the integers of a number */
  registry_id: string | null;
};

export const HOTEL_COLUMNS = `id, name, description, address, postal_code, city, country_code, latitude, longitude,
  language, star_rating::float8, room_count, website_url, email, images,
  to_char(certified_from, 'YYYY-MM-DD') as certified_from, to_char(certified_until, 'YYYY-MM-DD') as certified_until,
  certification_url, channel_id, registry_id::text`;
