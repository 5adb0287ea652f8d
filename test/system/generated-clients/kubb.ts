// Compiled and run by generated-clients.test.ts: walks all hotels, each of which the generated client validates.
import { setConfig } from '@kubb/plugin-client/clients/fetch';
import { batchHotelsByRegistryId, getHotel, listChanges, listHotels } from './generated/kubb';

const { HOTEL_API_URL, HOTEL_API_KEY } = process.env;
setConfig({ baseURL: HOTEL_API_URL!, headers: { 'x-api-key': HOTEL_API_KEY! } });

const ids: string[] = [];
for (let offset = 0; ; offset += 100) {
  const page = await listHotels({ limit: 100, offset });
  ids.push(...page.map(({ id }) => id));
  if (page.length < 100) break;
}

let copied = 0;
for (let after: string | undefined, more = true; more; ) {
  const page = await listChanges({ limit: 1000, ...(after && { after }) });
  copied += page.changes.length;
  ({ next: after, more } = page);
}

const one = await getHotel(ids[0]!);
const batch = await batchHotelsByRegistryId({ registry_ids: [one.registry_id!, '9007199254740993'] });

console.log(
  JSON.stringify({
    listed: ids.length,
    copied,
    one: one.id === ids[0],
    batch: batch.map(({ id }) => id === ids[0]),
  }),
);
