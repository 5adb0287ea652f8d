import { EMPTY_ROW, type HotelRow } from '../../hotels/row.ts';
import { DAY_MS } from '../../lib/clock.ts';
import { drawFrom } from './draw.ts';

/** ISO 3166-1 alpha-2 code; languages; postal code, `#` a digit, `@` a letter; line; streets; cities with latitude and longitude. */
const COUNTRIES = `
BR;pt;#####-###;{street}, {number};Rua Direita|Avenida da Liberdade|Praça da República|Rua do Comércio|Rua das Flores;São Paulo -23.5505 -46.6333|Rio de Janeiro -22.9068 -43.1729|Salvador -12.9777 -38.5016
DE;de;#####;{street} {number};Hauptstraße|Bahnhofstraße|Gartenweg|Am Markt|Lindenallee;Berlin 52.52 13.405|München 48.1351 11.582|Köln 50.9375 6.9603|Lübeck 53.8655 10.6866
ES;es|es|ca;#####;{street}, {number};Calle Mayor|Avenida de la Constitución|Plaza de España|Paseo del Mar|Calle del Sol;Madrid 40.4168 -3.7038|Barcelona 41.3874 2.1686|Málaga 36.7213 -4.4214|A Coruña 43.3623 -8.4115
FR;fr;#####;{number} {street};Rue de la Gare|Avenue de la République|Place du Marché|Rue des Écoles|Quai du Port;Paris 48.8566 2.3522|Lyon 45.764 4.8357|Orléans 47.903 1.9093|Nîmes 43.8367 4.3601
GB;en;@@# #@@;{number} {street};High Street|Station Road|Park Avenue|Church Lane|Market Square;London 51.5072 -0.1276|Edinburgh 55.9533 -3.1883|York 53.96 -1.0873|Bath 51.3811 -2.359
GR;el;### ##;{street} {number};Ερμού|Λεωφόρος Αθηνών|Οδός Σταδίου|Πλατεία Ελευθερίας|Παραλιακή;Αθήνα 37.9838 23.7275|Θεσσαλονίκη 40.6401 22.9444|Ηράκλειο 35.3387 25.1442
IT;it;#####;{street}, {number};Via Roma|Corso Garibaldi|Piazza del Duomo|Via Dante|Lungomare Marconi;Roma 41.9028 12.4964|Firenze 43.7696 11.2558|Venezia 45.4408 12.3155|Palermo 38.1157 13.3615
JP;ja;###-####;{street} {number};本町|中央通り|駅前|桜町|港町;東京 35.6762 139.6503|京都 35.0116 135.7681|札幌 43.0618 141.3545
NL;nl;#### @@;{street} {number};Kerkstraat|Dorpsstraat|Stationsweg|Molenlaan|Havenkade;Amsterdam 52.3676 4.9041|Utrecht 52.0907 5.1214|Maastricht 50.8514 5.691
PL;pl;##-###;{street} {number};ul. Główna|ul. Ogrodowa|Rynek|ul. Kościuszki|al. Niepodległości;Warszawa 52.2297 21.0122|Kraków 50.0647 19.945|Gdańsk 54.352 18.6466
PT;pt;####-###;{street}, {number};Rua Direita|Avenida da Liberdade|Praça da República|Rua do Comércio|Rua das Flores;Lisboa 38.7223 -9.1393|Porto 41.1579 -8.6291|Évora 38.5667 -7.9|Faro 37.0194 -7.9304
US;en;#####;{number} {street};Main Street|Oak Avenue|Second Street|Lakeview Drive;New York 40.7128 -74.006|Chicago 41.8781 -87.6298|New Orleans 29.9511 -90.0715|Seattle 47.6062 -122.3321
`
  .trim()
  .split('\n')
  .map((row) => {
    const [code = '', languages = '', postalCode = '', line = '', streets = '', cities = ''] = row.split(';');
    return {
      ...{ code, postalCode, line },
      languages: languages.split('|'),
      streets: streets.split('|'),
      cities: cities.split('|').map((city) => {
        const [, name = '', latitude, longitude] = /^(.+) (\S+) (\S+)$/.exec(city)!;
        return { name, latitude: Number(latitude), longitude: Number(longitude) };
      }),
    };
  });

const KINDS =
  'Hotel|Grand Hotel|Boutique Hotel|Inn|Guesthouse|Resort|Lodge|Suites|Park Hotel|Residence'.split('|');
const MARKS =
  'Aurora|Bellevue|Central|Garden|Harbour|Imperial|Lakeside|Meridian|Mirabell|Old Mill|Orchard|Panorama|Plaza|Regina|Riverside|Royal|Station|Sunrise|Terrace|Victoria|White Swan|Golden Lion'.split(
    '|',
  );
const CAPTIONS =
  'Front of the house|Double room|Breakfast room|Lobby|Terrace in the evening|Suite with a view|Garden|Spa|Restaurant|Meeting room|Roof bar|Family room'.split(
    '|',
  );
const OPENINGS = [
  '{name} stands in the middle of {city}, a few minutes on foot from the old town and the main station.',
  'A quiet address in {city}: {name} has welcomed travellers for three generations and was renovated with care.',
  '{name} looks over the roofs of {city} and brings together short ways, calm nights and an honest kitchen.',
  'Families, walkers and business guests alike feel at home at {name}, on a green street of {city}.',
];
const SENTENCES = [
  'The rooms have wide beds, blackout curtains, a desk and fast wireless internet at no charge.',
  'Breakfast is served until eleven, with bread from the bakery next door and fruit of the season.',
  'Guests reach the fair, the museums and the university by tram without changing.',
  'A small spa with a sauna and a fitness room is open from early morning until late at night.',
  'Bicycles can be borrowed at the reception, and the cars of guests find room in the garage.',
  'The restaurant cooks with what the region has to offer, and always has a dish without meat.',
  'Three meeting rooms with daylight hold up to eighty people.',
  'Dogs are welcome, and cots and high chairs stand ready for the youngest guests.',
  'From the terrace one sees the river and, on clear days, the hills behind it.',
  'The reception is open round the clock and gladly reserves tickets, tables and guided walks.',
  'Power comes from the sun and from the wind, and the linen is washed without bleach.',
];

const FIRST_REGISTRY_ID = 500_001;
const FIRST_CHANNEL_NUMBER = 100_001;
const ID_DIGITS = 8;
const ID_SPACE = 36n ** BigInt(ID_DIGITS);
/** Odd and no multiple of 3, so that indexes below 36^8 have distinct ids. */
const ID_STRIDE = 1_742_517_238_577n;

/** Returns the id of the hotel with this index, which is independent of the seed and the day. */
function hotelIdAt(index: number): string {
  const digits = ((BigInt(index) + 1n) * ID_STRIDE) % ID_SPACE;
  return `htl_${digits.toString(36).padStart(ID_DIGITS, '0')}`;
}

/**
 * Returns the hotel with this index, determined by index, seed and day (`today`, YYYY-MM-DD). Only the certification
 * periods depend on the day. Ids of all three kinds are unique; a channel or registry id, if the hotel has one, depends on
 * the index alone.
 */
export function hotelAt(index: number, seed: number, today: string): HotelRow {
  const below = drawFrom(seed, index);
  const between = (minimum: number, maximum: number) => minimum + below(maximum - minimum + 1);
  const pick = <T>(from: readonly T[]): T => from[below(from.length)]!;
  const draw = <T>(percent: number, value: () => T): T | null => (below(100) < percent ? value() : null);

  const id = hotelIdAt(index);
  const country = pick(COUNTRIES);
  const city = pick(country.cities);
  const names = [pick(KINDS), pick(MARKS)];
  if (below(100) >= 50) names.reverse();
  const name = [...names, ...(draw(60, () => [city.name]) ?? [])].join(' ');
  const street = country.line
    .replace('{street}', pick(country.streets))
    .replace('{number}', String(between(1, 180)));
  const postalCode = country.postalCode.replace(/[#@]/g, (mark) =>
    mark === '#' ? String(below(10)) : String.fromCharCode(65 + below(26)),
  );
  const isLocated = below(100) < 98;
  /** Draws 300 to 600 characters without repetitions. */
  const describe = () => {
    let text = pick(OPENINGS).replace('{name}', name).replace('{city}', city.name).slice(0, 250);
    const length = between(300, 450);
    for (let at = below(SENTENCES.length); text.length < length; at++)
      text += ` ${SENTENCES[at % SENTENCES.length]!}`;
    return text;
  };
  // no city is near a pole or the date line
  const near = (degrees: number) => Number((degrees + between(-200_000, 200_000) / 1e6).toFixed(6));
  const image = (_: unknown, at: number) => ({
    url: `https://cdn.example.com/hotels/${id}/${at + 1}.jpg`,
    caption: draw(80, () => pick(CAPTIONS)),
  });
  /** Draws no certification for three hotels of ten, a valid one for five, a past and a future one for one each. */
  const certify = () => {
    const [kind, startsInDays, days] = [below(10), between(1, 360), pick([365, 730])];
    const first = { 8: -startsInDays - days, 9: startsInDays }[kind] ?? -startsInDays;
    const dayAt = (day: number) =>
      new Date(Date.parse(`${today}T00:00:00Z`) + day * DAY_MS).toISOString().slice(0, 10);
    return (
      kind >= 3 && {
        certified_from: dayAt(first),
        certified_until: dayAt(first + days - 1),
        certification_url: `https://certificates.example.com/${id}`,
      }
    );
  };
  return {
    ...{ id, name },
    ...EMPTY_ROW,
    description: draw(97, describe),
    address: `${street}, ${postalCode} ${city.name}`,
    postal_code: postalCode,
    city: city.name,
    country_code: country.code,
    ...(isLocated && { latitude: near(city.latitude), longitude: near(city.longitude) }),
    language: pick(country.languages),
    room_count: draw(80, () => between(6, 60) * between(1, 5)),
    website_url: draw(85, () => `https://${slug(name)}-${index + 1}.example.com/`),
    images: Array.from({ length: below(4) }, image),
    ...certify(),
    channel_id: draw(90, () => `CH${FIRST_CHANNEL_NUMBER + index}`),
    registry_id: draw(80, () => String(FIRST_REGISTRY_ID + index)),
  };
}

function slug(name: string): string {
  const letters = name
    .normalize('NFKD')
    .replace(/\p{Mn}/gu, '')
    .toLowerCase();
  return letters.match(/[a-z0-9]+/g)!.join('-');
}
