import { count } from '../cli/common/progress.ts';
import type { PostgresServer } from './servers/postgres.ts';
import type { FoundRedis } from './servers/redis.ts';

/** Keys and hotels for the commands on the screen. */
export interface Examples {
  fullKey: string;
  narrowKey: string;
  collectionKey: string;
  /** three, with all three ids */
  hotels: { id: string; channelId: string; registryId: string }[];
}

interface Shown {
  hotels: number;
  workers: number;
  port: number;
  adminPort: number;
  examples: Examples;
  /** the folder of `makeTools` */
  tools: string;
  service: { pid: number };
  postgres: PostgresServer;
  redis: FoundRedis | undefined;
}

/**
 * Returns the screen: addresses and processes, two keys, and commands that can be run as printed, each on its own line.
 * With the usual ports and a folder below /tmp it fits a terminal of 80 columns and 24 lines, with two lines wrapped.
 */
export function screen(shown: Shown): string {
  const { hotels, workers, port, adminPort, examples, tools, service, postgres, redis } = shown;
  const [first, second] = examples.hotels;
  const api = `127.0.0.1:${port}`;
  const admin = `127.0.0.1:${adminPort}`;
  // quoted only if a shell would split or expand it
  const curl = (path: string, body?: object, key = 'key') =>
    `curl -sH @${tools}/${key} ${path.includes('?') ? `'${api}${path}'` : `${api}${path}`}` +
    (body ? ` -d '${JSON.stringify(body)}'` : '');
  return [
    `  Service  http://${api}  /docs /openapi.json; ${count('worker')(workers)}, pid ${service.pid}`,
    `  Admin    http://${admin}  /livez /readyz /metrics`,
    `  Stores   PostgreSQL :${postgres.port} pid ${postgres.pid}, ${hotels} hotels; ${redisPart(redis)}`,
    `  Keys     x-api-key: ${examples.fullKey}  scope registry`,
    `           x-api-key: ${examples.narrowKey}  no scope`,
    '# List, filter, one hotel by each id, by a key without scope, many, a collection',
    curl('/hotels?limit=2'),
    curl(`/hotels?registry_id=${first!.registryId}`),
    curl(`/hotels/${first!.id}`),
    curl(`/hotels/channel/${first!.channelId}`),
    curl(`/hotels/registry/${first!.registryId}`),
    curl(`/hotels/${first!.id}`, undefined, 'narrow'),
    curl('/hotels/channel/batch', { channel_ids: [first!.channelId, second!.channelId] }),
    curl('/hotels/registry/batch', { registry_ids: [Number(first!.registryId), second!.registryId] }),
    curl('/hotels?limit=100', undefined, 'collection'),
    '# Next: watch it in another terminal, kill Redis, change a row, repeat a request',
    `${tools}/hotel-api check-freshness --url http://${api}`,
    ...(redis?.server ? [`kill -9 ${redis.server.pid}`] : []),
    `${tools}/sql "update hotels set name='Nova' where id='${first!.id}'"`,
    `curl -s ${admin}/metrics | grep hotel_api_`,
    `${tools}/hotel-api keys list`,
  ].join('\n');
}

function redisPart(redis: FoundRedis | undefined): string {
  if (!redis) return 'no Redis';
  return redis.server ? `Redis :${redis.server.port} pid ${redis.server.pid}` : 'Redis of REDIS_URL';
}
