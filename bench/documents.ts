import { significant, whole } from './figures.ts';
import { table } from './markdown.ts';
import type { Origin } from './origin.ts';
import { ratiosOf } from './ratios.ts';
import type { Results } from './results.ts';
import type { Sizes } from './sizing.ts';
import { mainColumns, measured } from './tables.ts';

/** What the two files of results say of their runs. */
export function runs(results: Results, sizing: Sizes): string {
  const run = (tables: string, hotels: number, bytes: number, { at, commit, machine }: Origin) => {
    const parts = Object.entries(machine).map(([name, value]) => `${name} ${value}`);
    const what = `${tables}: ${at.slice(0, 10)}, commit ${commit}, ${whole(hotels)} hotels of ${whole(bytes)} bytes`;
    return `- ${[what, ...parts].join(', ')}`;
  };
  const sizes = '[Sizes](operations/sizing.md#what-was-measured)';
  return [
    run('Throughput to Compression', results.hotels, results.meanHotelBytes, results),
    run(sizes, sizing.hotels, sizing.jsonBytes, sizing),
  ].join('\n');
}

/** The table of README.md. */
export function performance(results: Results): string {
  const servers: [title: string, target: string, suffix?: string][] = [
    ['this service, from the local cache', 'service'],
    ['the same, `accept-encoding: gzip`', 'service', '-go'],
    ['this service, from Redis only', 'service-redis'],
    ['nginx + Lua, with `resty.lrucache`', 'nginx'],
    ['Fastify + ioredis', 'fastify'],
  ];
  const rows = servers.map(([title, target, suffix = '']) => {
    const cells = [`get${suffix}`, `batch-1000${suffix}`].map((name) => measured(results, name, target)!);
    return [
      title,
      ...cells.flatMap(({ rate, processor, range, latency }) => [rate, `${processor} (${range})`, latency]),
    ];
  });
  const { machine, hotels, meanHotelBytes } = results;
  const where = `One worker on one of the ${machine.cores} cores of a shared virtual machine (${machine.processor})`;
  return [
    `${where}; ${whole(hotels)} hotels of ${whole(meanHotelBytes)} bytes; warm caches.`,
    table(['One core', ...mainColumns()], rows, 1),
  ].join('\n\n');
}

/** What else a user could take. The costs are those of the ratios by CPU time. */
export function comparison(results: Results): string {
  const all = ratiosOf(results);
  const cost = (server: string, mode = '') => {
    const of = (scenario: string) => {
      const { value, by, other } = all.find(({ title }) => title === `${mode}${scenario}: ${server}`)!;
      return significant(by === 'CPU time' ? value : other!);
    };
    return `${of('GET by id')} for a GET, ${of('batch of 1000')} for a batch`;
  };
  const yours = 'keys in a database, limits, ETags, mirrors and freshness are yours to write';
  const fastify = `${cost('Fastify')}; ${cost('Fastify', 'Redis only, ')}, from Redis too`;
  const rows = `
PostgREST + Varnish|search and filters, no code|batches by POST are not cached; purges after changes are yours|not measured
nginx + Lua and Redis|HTTP/2, and TLS without a proxy in front|${yours}|${cost('nginx + Lua')}
Fastify + ioredis|usual code, any change is easy|a local cache, and the same are yours to write|${fastify}
a CDN|near the client, any load of public pages|responses are private to a key, and batches are POST|not measured`
    .trim()
    .split('\n')
    .map((line) => line.split('|'));
  return table(['Instead', 'Gives', 'Lacks', 'CPU time, as a multiple of this service’s'], rows);
}

/** Memory of a hotel in every tier, and of many. */
export function sizes(sizing: Sizes): string {
  const memory = (bytes: number) =>
    bytes < 1e9 ? `${whole(bytes / 1e6)} MB` : `${significant(bytes / 1e9)} GB`;
  const { hotels, jsonBytes, redisKeys, workerMiB, primaryMiB, bulkHotelsPerSecond } = sizing;
  const rows: [title: string, bytes: number][] = [
    ['local cache of a worker (`L1_MAX_BYTES`)', sizing.localCacheBytes],
    [`Redis, ${redisKeys.toFixed(2)} keys per hotel`, sizing.redisBytes],
    ['PostgreSQL: table', sizing.tableBytes],
    ['PostgreSQL: indexes', sizing.indexBytes],
  ];
  const head = `With ${whole(hotels)} hotels of ${whole(jsonBytes)} bytes of JSON`;
  return [
    table(
      [head, 'bytes per hotel', '100,000 hotels', '1,000,000', '10,000,000'],
      rows.map(([title, bytes]) => [
        title,
        whole(bytes),
        ...[1e5, 1e6, 1e7].map((count) => memory(bytes * count)),
      ]),
      1,
    ),
    `Beside its local cache, a worker took ${whole(workerMiB)} MiB, and the primary process ${whole(primaryMiB)} MiB. ` +
      `The sequencer gave positions to ${whole(Number(bulkHotelsPerSecond.toPrecision(2)))} hotels per second of one statement.`,
  ].join('\n\n');
}

/** What 10 million hotels a day cost at ten times the mean, and multiples of it. */
export function growth(results: Results): string {
  const peak = (perDay: number) => (10 * perDay) / 86_400;
  const cores = (suffix: string, target: string) =>
    (peak(9_000) * measured(results, `batch-1000${suffix}`, target)!.processorUs +
      peak(1e6) * measured(results, `get${suffix}`, target)!.processorUs) /
    1e6;
  const megabits = (peak(1e7) * results.meanHotelBytes * 8) / 1e6;
  const { ratio } = results.compression.find(({ level }) => level === 'of the service')!;
  const withGzip = cores('-go', 'service');
  const rows: [title: string, value: number][] = [
    ['batches of 1000 per second', peak(9_000)],
    ['single hotels per second', peak(1e6)],
    ['changes per second', peak(10_000)],
    ['cores, all from local caches', cores('', 'service')],
    ['cores with gzip', withGzip],
    ['cores without local caches', cores('', 'service-redis')],
    ['bodies in Mbit/s, uncompressed', megabits],
    ['bodies in Mbit/s, gzip', megabits / ratio],
  ];
  const short = (value: number) => (value < 10 ? value.toPrecision(2) : whole(value));
  const pods = (times: number) => String(Math.max(3, Math.ceil((withGzip * times) / 1.2)));
  const times = [1, 10, 100, 1000];
  return table(
    ['At the peak', 'this load', '× 10', '× 100', '× 1000'],
    [
      ...rows.map(([title, value]) => [title, ...times.map((each) => short(value * each))]),
      ['pods of two workers at 60 %, with gzip', ...times.map(pods)],
    ],
    1,
  );
}
