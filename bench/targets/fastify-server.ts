/**
 * Peer as a Node developer would write it in an afternoon: Fastify, ioredis, JSON parsed, filtered and written. Arguments:
 * port, Redis URL, database URL, the two keys.
 */
import Fastify from 'fastify';
import { Redis } from 'ioredis';
import postgres from 'postgres';

const [port, redisUrl, databaseUrl, fullKey, narrowKey] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
];
const scopes = new Map<string, string[]>([
  [fullKey, ['registry']],
  [narrowKey, []],
]);
const redis = new Redis(redisUrl);
const sql = postgres(databaseUrl);
const app = Fastify({ bodyLimit: 1_048_576 });

interface Hotel {
  registry_id: number | null;
}

declare module 'fastify' {
  interface FastifyRequest {
    scopes: string[];
  }
}

app.decorateRequest('scopes');
app.addHook('onRequest', async (request, reply) => {
  const granted = scopes.get(request.headers['x-api-key'] as string);
  if (!granted) return reply.code(401).send({ error: 'Unauthorized' });
  request.scopes = granted;
});

function visible(hotel: Hotel, granted: string[]): Hotel {
  return granted.includes('registry') ? hotel : { ...hotel, registry_id: null };
}

app.get<{ Params: { id: string } }>('/hotels/:id', async (request, reply) => {
  const found = await redis.get(`hotel:${request.params.id}`);
  if (found === null) return reply.code(404).send({ error: 'Hotel not found' });
  return visible(JSON.parse(found), request.scopes);
});

app.get<{ Params: { channelId: string } }>('/hotels/channel/:channelId', async (request, reply) => {
  const found = await redis.get(`hotel:channel:${request.params.channelId}`);
  if (found === null) return reply.code(404).send({ error: 'Hotel not found' });
  return visible(JSON.parse(found), request.scopes);
});

app.post<{ Body: { channel_ids: string[] } }>('/hotels/channel/batch', async (request) => {
  const found = await redis.mget(request.body.channel_ids.map((id) => `hotel:channel:${id}`));
  return found.filter((json) => json !== null).map((json) => visible(JSON.parse(json), request.scopes));
});

app.get<{ Querystring: { limit?: string; offset?: string } }>('/hotels', async (request) => {
  const { limit = '20', offset = '0' } = request.query;
  const rows =
    await sql`select id from hotels order by id collate "C" limit ${limit}::int offset ${offset}::int`;
  const found = rows.length > 0 ? await redis.mget(rows.map(({ id }) => `hotel:${id}`)) : [];
  return found.filter((json) => json !== null).map((json) => visible(JSON.parse(json), request.scopes));
});

await app.listen({ host: '127.0.0.1', port: Number(port) });
console.log('ready');
