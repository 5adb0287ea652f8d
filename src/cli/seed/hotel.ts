import { DAY_MS } from '../../hotels/assemble.ts';
import { EMPTY_ROW, type HotelRow } from '../../hotels/row.ts';
import { COUNTRIES } from './countries.ts';
import { Draw } from './draw.ts';
import { CAPTIONS, drawDescription, drawName } from './words.ts';

const FIRST_REGISTRY_ID = 500_001;
const FIRST_CHANNEL_NUMBER = 100_001;
const ID_DIGITS = 8;
const ID_SPACE = 36n ** BigInt(ID_DIGITS);
/** Odd and no multiple of 3, so that indexes below 36^8 have distinct ids. */
const ID_STRIDE = 1_742_517_238_577n;

/** Returns the id of the hotel with this index, which is independent of the seed and the day. */
export function hotelIdAt(index: number): string {
  const digits = ((BigInt(index) + 1n) * ID_STRIDE) % ID_SPACE;
  return `htl_${digits.toString(36).padStart(ID_DIGITS, '0')}`;
}

/**
 * Returns the hotel with this index, determined by index, seed and day (`today`, YYYY-MM-DD). Only the certification
 * periods depend on the day. Ids of all three kinds are unique; a channel or registry id, if the hotel has one, depends on
 * the index alone.
 */
export function hotelAt(index: number, seed: number, today: string): HotelRow {
  const draw = new Draw(seed, index);
  const id = hotelIdAt(index);
  const country = draw.pick(COUNTRIES);
  const place = draw.pick(country.cities);
  const name = drawName(draw, place.name);
  const street = country.line
    .replace('{street}', draw.pick(country.streets))
    .replace('{number}', String(draw.between(1, 180)));
  const postalCode = country.postalCode.replace(/[#@]/g, (mark) =>
    mark === '#' ? String(draw.below(10)) : String.fromCharCode(65 + draw.below(26)),
  );
  const isLocated = draw.chance(98);
  return {
    id,
    name,
    ...EMPTY_ROW,
    description: draw.chance(97) ? drawDescription(draw, name, place.name) : null,
    address: `${street}, ${postalCode} ${place.name}`,
    postal_code: postalCode,
    city: place.name,
    country_code: country.code,
    latitude: isLocated ? near(draw, place.latitude) : null,
    longitude: isLocated ? near(draw, place.longitude) : null,
    language: draw.pick(country.languages),
    room_count: draw.chance(80) ? draw.between(6, 60) * draw.between(1, 5) : null,
    website_url: draw.chance(85) ? `https://${slug(name)}-${index + 1}.example.com/` : null,
    images: drawImages(draw, id),
    ...drawCertification(draw, id, today),
    channel_id: draw.chance(90) ? `CH${FIRST_CHANNEL_NUMBER + index}` : null,
    registry_id: draw.chance(80) ? String(FIRST_REGISTRY_ID + index) : null,
  };
}

function drawImages(draw: Draw, id: string): HotelRow['images'] {
  return Array.from({ length: draw.below(4) }, (_, at) => ({
    url: `https://cdn.example.com/hotels/${id}/${at + 1}.jpg`,
    caption: draw.chance(80) ? draw.pick(CAPTIONS) : null,
  }));
}

/** Draws the certification of a hotel: of ten hotels three have none, five a valid, one a past, one a future one. */
function drawCertification(
  draw: Draw,
  id: string,
  today: string,
): Pick<HotelRow, 'certified_from' | 'certified_until' | 'certification_url'> {
  const kind = draw.below(10);
  const startsInDays = draw.between(1, 360);
  const lengthDays = draw.pick([365, 730]);
  if (kind < 3) return { certified_from: null, certified_until: null, certification_url: null };
  let first = -startsInDays;
  if (kind === 8) first = -startsInDays - lengthDays;
  if (kind === 9) first = startsInDays;
  return {
    certified_from: addDays(today, first),
    certified_until: addDays(today, first + lengthDays - 1),
    certification_url: `https://certificates.example.com/${id}`,
  };
}

/** Moves a coordinate of a city, none of which is near a pole or the date line. */
function near(draw: Draw, degrees: number): number {
  return Number((degrees + draw.between(-200_000, 200_000) / 1e6).toFixed(6));
}

function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
}

function slug(name: string): string {
  const ascii = name
    .normalize('NFKD')
    .replace(/\p{Mn}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-');
  return ascii
    .replace(/^-+|-+$/g, '')
    .slice(0, 40)
    .replace(/-+$/, '');
}
