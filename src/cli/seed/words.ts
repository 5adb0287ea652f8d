import type { Draw } from './draw.ts';

const KINDS =
  'Hotel|Grand Hotel|Boutique Hotel|Inn|Guesthouse|Resort|Lodge|Suites|Park Hotel|Residence'.split('|');
const MARKS =
  'Aurora|Bellevue|Central|Garden|Harbour|Imperial|Lakeside|Meridian|Mirabell|Old Mill|Orchard|Panorama|Plaza|Regina|Riverside|Royal|Station|Sunrise|Terrace|Victoria|White Swan|Golden Lion'.split(
    '|',
  );
export const CAPTIONS =
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

/** Draws a name such as "Park Hotel Aurora Lyon". */
export function drawName(draw: Draw, city: string): string {
  const [kind, mark] = [draw.pick(KINDS), draw.pick(MARKS)];
  const name = draw.chance(50) ? `${kind} ${mark}` : `${mark} ${kind}`;
  return draw.chance(60) ? `${name} ${city}` : name;
}

/** Draws a description of 300 to 600 characters without repetitions. */
export function drawDescription(draw: Draw, name: string, city: string): string {
  let text = draw.pick(OPENINGS).replace('{name}', name).replace('{city}', city).slice(0, 250);
  const length = draw.between(300, 450);
  for (let at = draw.below(SENTENCES.length); text.length < length; at++)
    text += ` ${SENTENCES[at % SENTENCES.length]!}`;
  return text;
}
