// Compiled and run by clients.test.ts with the types generated from the document.
import createClient from 'openapi-fetch';
import type { paths } from './openapi.d.ts';

const client = createClient<paths>({
  baseUrl: process.env.HOTEL_API_URL!,
  headers: { 'x-api-key': process.env.HOTEL_API_KEY! },
});

const list = await client.GET('/hotels', { params: { query: { limit: 2, offset: 0 } } });
const ids: string[] = list.data!.map(({ id }) => id);

const one = await client.GET('/hotels/{id}', { params: { path: { id: 'htl_sliji9ej' } } });
const city: string | null = one.data!.city;

const byChannel = await client.GET('/hotels/channel/{channelId}', {
  params: { path: { channelId: 'CH100011' } },
});
const byRegistry = await client.GET('/hotels/registry/{registryId}', {
  params: { path: { registryId: 500011 } },
});
const batch = await client.POST('/hotels/channel/batch', { body: { channel_ids: ['CH100011', 'CH100005'] } });
const registryBatch = await client.POST('/hotels/registry/batch', {
  body: { registry_ids: [500011, '500005'] },
});
const missing = await client.GET('/hotels/{id}', { params: { path: { id: 'nobody' } } });
const sentence: string | undefined = missing.error?.error;

// the types know what is wrong
// @ts-expect-error no such path
void (() => client.GET('/hotel'));
// @ts-expect-error the limit is a number
void (() => client.GET('/hotels', { params: { query: { limit: '2' } } }));
// @ts-expect-error channel ids are strings
void (() => client.POST('/hotels/channel/batch', { body: { channel_ids: [1] } }));
// @ts-expect-error the city may be null
void (() => one.data!.city.length);
// @ts-expect-error no such field
void (() => one.data!.stars);

console.log(
  JSON.stringify({
    ids,
    city,
    same: [byChannel.data, byRegistry.data].map(
      (hotel) => JSON.stringify(hotel) === JSON.stringify(one.data),
    ),
    batches: [batch.data, registryBatch.data].map((hotels) => hotels!.map(({ registry_id }) => registry_id)),
    status: missing.response.status,
    sentence,
  }),
);
