import type { PostgresServer } from './postgres.ts';
import type { FoundRedis } from './redis.ts';

/** What the shown commands ask for; three hotels that have all three ids. */
export interface Examples {
  fullKey: string;
  narrowKey: string;
  hotels: { id: string; channelId: string; registryId: string }[];
  /** of the first hotel */
  etag: string;
}

export interface Shown {
  hotels: number;
  workers: number;
  port: number;
  adminPort: number;
  ownerUrl: string;
  examples: Examples;
  service: { pid: number };
  postgres: PostgresServer;
  redis: FoundRedis | undefined;
}

/** One screen: what runs where, two keys, and commands that work as they stand, each on a line of its own. */
export function screen({
  hotels,
  workers,
  port,
  adminPort,
  ownerUrl,
  examples,
  service,
  postgres,
  redis,
}: Shown): string {
  const base = `http://127.0.0.1:${port}`;
  const admin = `http://127.0.0.1:${adminPort}`;
  const [first, second, third] = examples.hotels;
  const curl = (path: string, options = '', key = examples.fullKey) =>
    `curl -sS${options && ` ${options}`} -H 'x-api-key: ${key}' '${base}${path}'`;
  const post = (path: string, body: object) =>
    curl(path, `-H 'content-type: application/json' -d '${JSON.stringify(body)}'`);
  return `
  Service     ${base}  ${workers} ${workers === 1 ? 'worker' : 'workers'}, pid ${service.pid}
  Admin       ${admin}  /livez /readyz /metrics
  PostgreSQL  127.0.0.1:${postgres.port}, pid ${postgres.pid}; ${hotels} hotels
  Redis       ${redisLine(redis)}

  Key with the registry scope  ${examples.fullKey}
  Key without it               ${examples.narrowKey}

# List, and the list of one registry id
${curl('/hotels?limit=2')}
${curl(`/hotels?registry_id=${first!.registryId}`)}
# One hotel by id, by channel id, by registry id; the same without the scope: registry_id is null
${curl(`/hotels/${first!.id}`)}
${curl(`/hotels/channel/${first!.channelId}`)}
${curl(`/hotels/registry/${first!.registryId}`)}
${curl(`/hotels/${first!.id}`, '', examples.narrowKey)}
# Many at once
${post('/hotels/channel/batch', { channel_ids: examples.hotels.map(({ channelId }) => channelId) })}
${post('/hotels/registry/batch', { registry_ids: [Number(second!.registryId), third!.registryId] })}
# Headers alone; and 304 to who has it already
${curl(`/hotels/${first!.id}`, '-I')}
${curl(`/hotels/${first!.id}`, `-i -H 'if-none-match: ${examples.etag}'`)}
# Is it well, and what does it do
curl -sS '${admin}/readyz'
curl -sS '${admin}/metrics'
# The operator's command line, on this database
DATABASE_URL='${ownerUrl}' npm run --silent hotel-api -- keys list
`;
}

function redisLine(redis: FoundRedis | undefined): string {
  if (!redis) return 'none';
  return redis.server
    ? `127.0.0.1:${redis.server.port}, pid ${redis.server.pid}; ${redis.from}`
    : 'the one of REDIS_URL';
}
