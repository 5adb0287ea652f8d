import type { Shutdown } from '../../src/lib/shutdown.ts';
import { addressOf } from './postgres-client.ts';

export interface ContainerServers {
  /** returns the address of a database for a superuser */
  urlOf(database: string): string;
  redisUrl: string | undefined;
}

/** Starts PostgreSQL and Redis as containers; undefined without a Docker engine. */
export async function startContainers(
  shutdown: Shutdown,
  maxConnections: number,
): Promise<ContainerServers | undefined> {
  const { GenericContainer, getContainerRuntimeClient } = await import('testcontainers');
  const engine = await getContainerRuntimeClient().catch(() => undefined);
  if (!engine) return undefined;
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql');
  const settings = [
    'fsync=off',
    'synchronous_commit=off',
    'full_page_writes=off',
    `max_connections=${maxConnections}`,
  ];
  const database = await new PostgreSqlContainer('postgres:17')
    .withCommand(['postgres', ...settings.flatMap((setting) => ['-c', setting])])
    .start();
  shutdown.push('PostgreSQL container', () => database.stop(), 20_000);
  const redis = await new GenericContainer('redis:7')
    .withExposedPorts(6379)
    .withCommand(['redis-server', '--save', '', '--appendonly', 'no', '--databases', '128'])
    .start();
  shutdown.push('Redis container', () => redis.stop(), 20_000);
  return {
    urlOf: (name) => addressOf(database.getConnectionUri(), { database: name }),
    redisUrl: `redis://${redis.getHost()}:${redis.getMappedPort(6379)}/0`,
  };
}
