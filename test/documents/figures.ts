import { median, significant, whole } from '../../bench/figures.ts';
import type { Origin } from '../../bench/origin.ts';
import { WORKERS } from '../../bench/probes/workers.ts';
import { ratiosOf } from '../../bench/ratios.ts';
import { SATURATED } from '../../bench/report.ts';
import type { Results } from '../../bench/results.ts';
import { cellsInTurn, type Round, soundRounds } from '../../bench/rounds.ts';
import { SCENARIOS } from '../../bench/scenarios.ts';
import type { Sizes } from '../../bench/sizing.ts';
import { read } from './files.ts';
import { table } from './table.ts';

const results: Results = JSON.parse(read('bench/results/latest.json'));
const sizing: Sizes = JSON.parse(read('bench/results/sizing.json'));

const SERVERS = {
  service: 'service',
  'service-redis': 'service, Redis only',
  nginx: 'nginx',
  'nginx-redis': 'nginx, Redis only',
  fastify: 'Fastify',
  limit: 'upper bound',
};

/** Columns of both main scenarios, with further ones behind the CPU time. */
const mainColumns = (...further: string[]): string[] =>
  ['GET by id', 'batch of 1000'].flatMap((scenario) => [
    `${scenario}, requests/s`,
    ...['CPU µs', ...further, 'p50 / p99 ms'],
  ]);
/** Returns the title of one of the two main scenarios. */
const mainTitle = (scenario: string) => (scenario === 'get' ? 'GET by id' : 'batch of 1000');

const rangeOf = (values: number[]) =>
  `${significant(Math.min(...values))} to ${significant(Math.max(...values))}`;
const milliseconds = (...us: number[]) => us.map((each) => significant(each / 1000)).join(' / ');

interface Measured {
  /** with ~ where the server was not the bottleneck */
  rate: string;
  processorUs: number;
  /** `processorUs` as text */
  processor: string;
  /** of the CPU times of the rounds */
  range: string;
  /** p50 and p99 in milliseconds */
  latency: string;
  /** rounds with a wrong response, if there are some */
  remark: string;
}

/** Returns medians of the rounds of a cell. */
function measured(scenario: string, target: string): Measured | undefined {
  const all = cellsInTurn(results.cells, scenario).find((cell) => cell.target === target)?.rounds;
  if (!all) return undefined;
  const rounds = soundRounds(all);
  const of = (pick: (round: Round) => number) => median(rounds.map(pick));
  const processorUs = of((round) => round.processorUs);
  const failed = all.filter(({ faultCount }) => faultCount > 0).length;
  return {
    rate:
      (of(({ busy }) => busy) < SATURATED ? '~' : '') + whole(of((round) => round.requests / round.seconds)),
    processorUs,
    processor: significant(processorUs),
    range: rangeOf(rounds.map((round) => round.processorUs)),
    latency: milliseconds(
      of(({ p50Us }) => p50Us),
      of(({ p99Us }) => p99Us),
    ),
    remark: failed > 0 ? `, ${failed} of ${all.length} rounds left out` : '',
  };
}

/** What the two files of results say of their runs. */
export function runs(): string {
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

export function performance(): string {
  const servers: [title: string, target: string, suffix?: string][] = [
    ['this service, from the local cache', 'service'],
    ['the same, `accept-encoding: gzip`', 'service', '-go'],
    ['this service, from Redis only', 'service-redis'],
    ['nginx + Lua, with `resty.lrucache`', 'nginx'],
    ['Fastify + ioredis', 'fastify'],
  ];
  const rows = servers.map(([title, target, suffix = '']) => {
    const cells = [`get${suffix}`, `batch-1000${suffix}`].map((name) => measured(name, target)!);
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
export function comparison(): string {
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

export function throughput(): string {
  const found = SCENARIOS.map(({ name, title }) => ({
    title,
    cells: Object.keys(SERVERS).map((target) => measured(name, target)),
  }));
  const rows = found.map(({ title, cells }) => [
    title,
    ...cells.map((cell) => (cell ? `${cell.rate} (${cell.processor}${cell.remark})` : '')),
  ]);
  const cheaper = found.flatMap(({ title, cells: [service, serviceRedis, nginx, nginxRedis] }) => [
    ...(service && nginx && nginx.processorUs < service.processorUs ? [title] : []),
    ...(serviceRedis && nginxRedis && nginxRedis.processorUs < serviceRedis.processorUs
      ? [`${title}, Redis only`]
      : []),
  ]);
  return [
    table(['Requests/s (CPU µs/request)', ...Object.values(SERVERS)], rows, 1),
    `nginx takes less CPU time than the service in these rows: ${cheaper.join('; ') || 'none'}.`,
  ].join('\n\n');
}

/** The main scenarios by autocannon, with the share of a core that each server used. */
export function autocannon(): string {
  const byScenario = Map.groupBy(results.autocannon, ({ scenario }) => scenario);
  const rows = [...byScenario].map(([scenario, cells]) => [
    mainTitle(scenario),
    ...cells.map(({ rounds: [round] }) => {
      const { requests, seconds, processorUs, busy } = round!;
      return `${whole(requests / seconds)} (${significant(processorUs)}), ${whole(100 * busy)} %`;
    }),
  ]);
  const titles = byScenario.get('get')!.map(({ target }) => SERVERS[target as keyof typeof SERVERS]);
  return table(['Requests/s (CPU µs/request), busy', ...titles], rows, 1);
}

/** Ratios, and what they do not show: floors that were missed, and probes that failed. */
export function ratios(): string {
  const found = ratiosOf(results);
  const rows = found.map(({ title, by, value, rounds, other, atMost, floor, aim }) => {
    const bound = (limit: number) => `${atMost ? '≤' : '≥'} ${limit}`;
    return [
      `${title}${by ? `, by ${by}` : ''}`,
      significant(value),
      `${rounds.length}: ${rangeOf(rounds)}`,
      other === undefined ? '' : significant(other),
      bound(floor),
      bound(aim),
    ];
  });
  const missed = found.filter(({ decision }) => decision === 'missed');
  // with a digit more than the table, whose rounding may reach the floor
  const named = missed.map(({ title, value }) => `${title} (${value.toPrecision(4)})`).join('; ');
  return [
    table(['Compared', 'Ratio, median', 'Rounds', 'By the other measure', 'Floor', 'Aim'], rows, 1),
    `Floors missed: ${named || 'none'}.`,
    ...results.sentences.filter((sentence) => sentence.startsWith('The probe ')),
  ].join('\n\n');
}

/** Services with one and more workers on all cores, and the upper bound with as many processes. */
export function workers(): string {
  const rows = WORKERS.map((count) => [
    String(count),
    ...['get', 'batch-1000'].flatMap((name) => {
      const { rate, processor, latency } = measured(`workers-${name}`, `workers-${count}`)!;
      const limit = measured(`workers-${name}`, `limit-${count}`)!.processor;
      return [rate.replace('~', ''), processor, limit, latency];
    }),
  ]);
  return table(['Workers', ...mainColumns('upper bound, CPU µs')], rows, 1);
}

export function latency(): string {
  const targets = ['service', 'service-redis', 'nginx', 'fastify'] as const;
  const points = Map.groupBy(results.sweep, ({ scenario, perSecond }) => `${scenario} ${perSecond}`);
  const rows = [...points.values()].map((point) => {
    const { scenario, perSecond } = point[0]!;
    const cells = targets.map((target) => {
      const found = point.find((each) => each.target === target);
      if (!found) return '';
      const failed = found.faultCount > 0 ? ` (${found.faultCount} failed)` : '';
      return milliseconds(found.p50Us, found.p99Us) + failed;
    });
    return [mainTitle(scenario), whole(perSecond), ...cells];
  });
  return table(['p50 / p99 in ms', 'due/s', ...targets.map((target) => SERVERS[target])], rows, 1);
}

export function compression(): string {
  const rows = results.compression.map(({ encoding, level, ms, ratio }) => [
    `${encoding} ${level}`,
    significant(ms),
    `1/${significant(ratio)}`,
  ]);
  return table(['Coding and level', 'ms', 'Size'], rows, 1);
}

export function sizes(): string {
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
export function growth(): string {
  const peak = (perDay: number) => (10 * perDay) / 86_400;
  const cores = (suffix: string, target: string) =>
    (peak(9_000) * measured(`batch-1000${suffix}`, target)!.processorUs +
      peak(1e6) * measured(`get${suffix}`, target)!.processorUs) /
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
