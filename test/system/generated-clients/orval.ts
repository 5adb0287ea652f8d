// Compiled and run by generated-clients.test.ts: walks all hotels, and validates each with the generated schemas.
import { batchHotelsByRegistryId, getHotel, listChanges, listHotels } from './generated/orval/client';
import * as schemas from './generated/orval/schemas';

const options = { headers: { 'x-api-key': process.env.HOTEL_API_KEY! } };

/** Returns the data of a response with status 200; the types tell it from an error. */
function dataOf<T extends { status: number; data: unknown }>(
  response: T,
): Extract<T, { status: 200 }>['data'] {
  if (response.status !== 200) throw new Error(JSON.stringify(response));
  return response.data as Extract<T, { status: 200 }>['data'];
}

/** Id of a hotel that has to be encoded in a path. */
const ODD = 'odd/ä ?#%';

const ids: string[] = [];
for (let offset = 0; ; offset += 100) {
  const page = schemas.ListHotelsResponse.parse(dataOf(await listHotels({ limit: 100, offset }, options)));
  ids.push(...page.map(({ id }) => id));
  if (page.length < 100) break;
}

let copied = 0;
for (let after: string | undefined, more = true; more; ) {
  const parameters = { limit: 1000, ...(after && { after }) };
  const page = schemas.ListChangesResponse.parse(dataOf(await listChanges(parameters, options)));
  copied += page.changes.length;
  ({ next: after, more } = page);
}

const one = schemas.GetHotelResponse.parse(dataOf(await getHotel(ids[0]!, options)));
const registry_ids = [one.registry_id!, '9007199254740993'];
const batch = dataOf(await batchHotelsByRegistryId({ registry_ids }, options));
const missing = await getHotel('a/b', options);

console.log(
  JSON.stringify({
    listed: ids.length,
    copied,
    one: one.id === ids[0],
    odd: dataOf(await getHotel(ODD, options)).id,
    batch: schemas.BatchHotelsByRegistryIdResponse.parse(batch).map(({ id }) => id === ids[0]),
    missing: [missing.status, missing.status === 404 && missing.data.error],
  }),
);
