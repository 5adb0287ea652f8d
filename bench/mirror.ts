import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { createKey } from '../src/cli/keys.ts';
import type { Shutdown } from '../src/lib/shutdown.ts';
import { splitCores } from './cores.ts';
import { median } from './figures.ts';
import { MirrorClient } from './mirror/client.ts';
import { writersOf } from './mirror/writers.ts';
import { startService } from './targets/service.ts';
import { makeDatabase, startServers } from './world.ts';

const RESULTS = fileURLToPath(new URL('./results/mirror.json', import.meta.url));

/** Costs of mirrors. Each pair is ours, then what it is compared with, by round. */
export interface MirrorFigures {
  at: string;
  hotels: number;
  /** processor time per request, µs: nothing new, and a GET from memory */
  upToDateUs: [ours: number, get: number][];
  /** ms: a page of 1000 changes, and a batch of 1000 that no cache holds */
  pageMs: [ours: number, batch: number][];
  /** the same in processor time of the service, ms */
  pageProcessorMs: [ours: number, batch: number][];
  /** the first copy by one client */
  copy: { requests: number; seconds: number; bytes: number };
  waiting: {
    clients: number;
    workerMiB: number;
    /** of GETs at a fixed rate with waiting clients, and without, ms */
    p99Ms: [ours: number, without: number][];
    /** from the commit until the last client has its response */
    lastAnswerMs: number[];
  };
  /** ms of transactions without a service: of this release, and of the commit given */
  writersMs: Record<string, [ours: number, before: number | null][]>;
  /** of the change log, with its indexes */
  logBytesPerHotel: number;
}

export interface MirrorOptions {
  hotels: number;
  clients: number;
  rounds: number;
  /** commit whose schema the writers are compared with */
  before?: string;
}

/** Measures what mirrors cost, and writes bench/results/mirror.json. */
export async function runMirror(
  options: MirrorOptions,
  shutdown: Shutdown,
  say: (sentence: string) => void,
): Promise<void> {
  const { hotels, rounds } = options;
  const cores = await splitCores();
  say(cores.sentence);
  const { postgres, redis } = await startServers(shutdown, say);
  say(`Generating ${hotels} hotels …`);
  const { sql, databaseUrl } = await makeDatabase({ postgres, shutdown }, 'mirror', hotels);
  const { key } = await createKey(sql, { name: 'mirror', scopes: ['registry'], expiresAt: null });
  const alone = await writersOf(sql, rounds, shutdown, postgres.url('postgres'), options.before, say);
  const service = await startService(
    {
      pin: cores.server,
      databaseUrl,
      redisUrl: redis.url,
      peerRedisUrl: '',
      keys: { full: key, narrow: key },
    },
    { name: 'service', environment: { DATABASE_TIMEOUT_MS: '10000' } },
  );
  shutdown.push('service', service.stop, 12_000);
  const client = new MirrorClient(service, key, sql);
  say('Copying all hotels …');
  const copy = await client.copy();
  const upToDateUs = await client.upToDate(rounds);
  say('Reading pages of changes …');
  const pages = await client.pages(rounds);
  say(`Waiting with ${options.clients} clients …`);
  const waiting = await client.wait(options.clients, rounds);
  const [log] = await sql`
    select pg_total_relation_size('hotel_api_change_log')::float8 / count(*)::float8 as bytes from hotel_api_change_log`;
  const figures: MirrorFigures = {
    at: new Date().toISOString(),
    hotels,
    upToDateUs,
    ...pages,
    copy,
    waiting,
    writersMs: Object.fromEntries(
      Object.entries(alone.ours).map(([name, values]) => [
        name,
        values.map((value, i) => [value, alone.before?.[name]?.[i] ?? null]),
      ]),
    ),
    logBytesPerHotel: log!.bytes,
  };
  await writeFile(RESULTS, `${JSON.stringify(figures, null, 1)}\n`);
  const ratio = (pairs: [number, number][]) =>
    median(pairs.map(([ours, theirs]) => ours / theirs)).toFixed(2);
  const ms = (values: number[]) => median(values).toFixed(1);
  console.log(`nothing new / GET, by processor time: ${ratio(upToDateUs)} (bound 1.5)`);
  console.log(`page of 1000 changes / cold batch of 1000, by time: ${ratio(pages.pageMs)} (bound 2)`);
  console.log(`the same by processor time: ${ratio(pages.pageProcessorMs)}`);
  console.log(
    `first copy: ${copy.requests} requests, ${copy.seconds.toFixed(1)} s (bounds 1,000 and 60 for a million)`,
  );
  console.log(
    `${options.clients} waiting clients: ${waiting.workerMiB.toFixed(1)} MiB of the worker (bound 100)`,
  );
  console.log(`the last of them has its answer after ${ms(waiting.lastAnswerMs)} ms (bound 1,000)`);
  console.log(`p99 of GETs with them / without: ${ratio(waiting.p99Ms)}`);
  for (const [name, values] of Object.entries(figures.writersMs)) {
    const before = values.map((value) => value[1]).filter((value) => value !== null);
    const beside = before.length > 0 ? `, before ${ms(before)} ms` : '';
    console.log(`${name}: ${ms(values.map(([ours]) => ours))} ms${beside}`);
  }
}
