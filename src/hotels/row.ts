import { Hotel, valueSchemaOf } from './hotel.ts';

/** Row of `hotels` as `HOTEL_COLUMNS` selects it. */
export type HotelRow = Omit<Hotel, 'certified' | 'images' | 'registry_id'> & {
  images: { url: string; caption?: string | null }[];
  /** decimal digits: a bigint may exceed the integers of a number */
  registry_id: string | null;
};

/** Fields of the API that are columns too, in the order of a response. */
export const FIELDS_OF_ROW = Object.keys(Hotel.properties).filter(
  (field) => field !== 'certified',
) as (keyof HotelRow)[];

/** A row whose values are all unknown. */
export const EMPTY_ROW = Object.fromEntries(
  FIELDS_OF_ROW.slice(2).map((field) => [field, field === 'images' ? [] : null]),
) as unknown as Omit<HotelRow, 'id' | 'name'>;

export const HOTEL_COLUMNS = FIELDS_OF_ROW.map(columnOf).join(', ');

function columnOf(field: keyof HotelRow): string {
  const { type, format } = valueSchemaOf(Hotel.properties[field]);
  if (format === 'date') return `to_char(${field}, 'YYYY-MM-DD') as ${field}`;
  if (format === 'int64') return `${field}::text`;
  return type === 'number' ? `${field}::float8` : field;
}
