// Compiled and run by generated-clients.test.ts: walks all hotels, each of which the generated client validates.
import { client } from './generated/hey-api/client.gen';
import { batchHotelsByRegistryId, getHotel, listChanges, listHotels } from './generated/hey-api/sdk.gen';

const { HOTEL_API_URL, HOTEL_API_KEY } = process.env;
client.setConfig({ baseUrl: HOTEL_API_URL!, auth: HOTEL_API_KEY!, throwOnError: true });

/** Id of a hotel that has to be encoded in a path. */
const ODD = 'odd/ä ?#%';

const ids: string[] = [];
for (let offset = 0; ; offset += 100) {
  const { data } = await listHotels({ query: { limit: 100, offset }, throwOnError: true });
  ids.push(...data.map(({ id }) => id));
  if (data.length < 100) break;
}

let copied = 0;
for (let after: string | undefined, more = true; more; ) {
  const { data } = await listChanges({ query: { limit: 1000, ...(after && { after }) }, throwOnError: true });
  copied += data.changes.length;
  ({ next: after, more } = data);
}

const one = await getHotel({ path: { id: ids[0]! }, throwOnError: true });
const registryIds = [one.data.registry_id!, '9007199254740993'];
const batch = await batchHotelsByRegistryId({ body: { registry_ids: registryIds }, throwOnError: true });
const missing = await getHotel({ path: { id: 'a/b' }, throwOnError: false });

console.log(
  JSON.stringify({
    listed: ids.length,
    copied,
    one: one.data.id === ids[0],
    odd: (await getHotel({ path: { id: ODD }, throwOnError: true })).data.id,
    batch: batch.data.map(({ id }) => id === ids[0]),
    missing: [missing.response?.status, missing.error?.error],
  }),
);
