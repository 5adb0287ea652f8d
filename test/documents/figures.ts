import { median, significant, whole } from '../../bench/figures.ts';
import type { Origin } from '../../bench/origin.ts';
import { WORKERS } from '../../bench/probes/workers.ts';
import { ratiosOf } from '../../bench/ratios.ts';
import { SATURATED } from '../../bench/report.ts';
import type { Results } from '../../bench/results.ts';
import { cellsInTurn, PROCESSES, type Round, soundRounds } from '../../bench/rounds.ts';
import type { Sizes } from '../../bench/sizing.ts';
import { read } from './files.ts';
import { grouped, table } from './table.ts';

const results = (): Results => JSON.parse(read('bench/results/latest.json'));

const SERVERS = ['service', 'service-redis', 'nginx', 'nginx-redis', 'fastify', 'limit'];

/** Columns of both main scenarios, with further ones behind the CPU time. */
const mainColumns = (...further: string[]): string[] =>
  ['GET by id', 'batch of 1000'].flatMap((scenario) => [
    `${scenario}, requests/s`,
    ...['CPU µs', ...further, 'p50 / p99 ms'],
  ]);

interface Measured {
  /** with ~ where the server was not the bottleneck */
  rate: string;
  processor: string;
  /** of the CPU times of the rounds */
  range: string;
  /** p50 and p99 in milliseconds */
  latency: string;
}

const allRoundsOf = (scenario: string, target: string): Round[] | undefined =>
  cellsInTurn(results().cells, scenario).find((cell) => cell.target === target)?.rounds;
const roundsOf = (scenario: string, target: string): Round[] | undefined => {
  const rounds = allRoundsOf(scenario, target);
  return rounds && soundRounds(rounds);
};
/** Returns the CPU time of a request in microseconds. */
const processorUsOf = (rounds: Round[]) => median(rounds.map(({ processorUs }) => processorUs));
const rangeOf = (values: number[]) =>
  `${significant(Math.min(...values))} to ${significant(Math.max(...values))}`;

function measured(scenario: string, target: string): Measured | undefined {
  const rounds = roundsOf(scenario, target);
  if (!rounds) return undefined;
  const ms = (us: number[]) => significant(median(us) / 1000);
  const mark = median(rounds.map(({ busy }) => busy)) < SATURATED ? '~' : '';
  return {
    rate: mark + whole(median(rounds.map(({ requests, seconds }) => requests / seconds))),
    processor: significant(processorUsOf(rounds)),
    range: rangeOf(rounds.map(({ processorUs }) => processorUs)),
    latency: `${ms(rounds.map(({ p50Us }) => p50Us))} / ${ms(rounds.map(({ p99Us }) => p99Us))}`,
  };
}

/** What the two files of results say of their runs. */
export function runs(): string {
  const run = results();
  const sizing: Sizes = JSON.parse(read('bench/results/sizing.json'));
  const hotelsOf = (count: number, bytes: number) => `${whole(count)} of ${whole(bytes)} bytes`;
  const row = (tables: string, hotels: string, { at, commit, machine }: Partial<Origin>) => [
    tables,
    at!.slice(0, 10),
    hotels,
    ...[commit, machine?.processor, machine?.cores, machine?.kernel, machine?.node].map((value) =>
      String(value ?? ''),
    ),
    ...[machine?.postgres, machine?.redis, machine?.nginx, machine?.wrk].map((value) => value ?? ''),
  ];
  return table(
    'Figures,Date,Hotels,Commit,Processor,Cores,Linux,Node,PostgreSQL,Redis,nginx,wrk'.split(','),
    [
      row('Throughput to Compression', hotelsOf(run.hotels, run.meanHotelBytes), run),
      row(
        '[sizes](operations/sizing.md#what-was-measured)',
        hotelsOf(sizing.hotels, sizing.jsonBytes),
        sizing,
      ),
    ],
  );
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
  const { machine, hotels, meanHotelBytes } = results();
  const where = `One worker on one of the ${machine.cores} cores of a shared virtual machine (${machine.processor})`;
  return [
    `${where}; ${whole(hotels)} hotels of ${whole(meanHotelBytes)} bytes; warm caches.`,
    table(['One core', ...mainColumns()], rows, 1),
  ].join('\n\n');
}

/** What else a user could take. The costs are those of the ratios by CPU time. */
export function comparison(): string {
  const all = ratiosOf(results());
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
  const scenarios: [name: string, title: string][] = [
    ['get', 'GET by id, uniform'],
    ['get-zipf', 'GET by id, Zipf'],
    ['get-channel', 'GET by channel id'],
    ['get-narrow', 'GET by id, key without the scope'],
    ['get-go', 'GET by id, `gzip` (Go)'],
    ['get-node', 'GET by id, `gzip, deflate` (Node)'],
    ['get-python', 'GET by id, `gzip, deflate, br, zstd` (Python)'],
    ['get-br', 'GET by id, `br`'],
    ['unknown-key', 'GET with an unknown key (401)'],
    ['batch-10', 'batch of 10'],
    ['batch-100', 'batch of 100'],
    ['batch-1000', 'batch of 1000'],
    ['batch-1000-ids', 'batch of 1000 by own id'],
    ['batch-1000-narrow', 'batch of 1000, key without the scope'],
    ['batch-1000-go', 'batch of 1000, `gzip` (Go)'],
    ['batch-1000-node', 'batch of 1000, `gzip, deflate` (Node)'],
    ['batch-1000-python', 'batch of 1000, `gzip, deflate, br, zstd` (Python)'],
    ['batch-1000-br', 'batch of 1000, `br`'],
    ['page-20', 'list of 20'],
    ['page-20-go', 'list of 20, `gzip` (Go)'],
    ['page-start', 'list, 100 hotels at offset 0'],
    ['page-end', 'list, the last 100 hotels'],
  ];
  const cell = (scenario: string, target: string) => {
    const found = measured(scenario, target);
    if (!found) return '';
    const rounds = allRoundsOf(scenario, target)!;
    const failed = rounds.filter(({ faultCount }) => faultCount > 0).length;
    const remark = failed > 0 ? `, ${failed} of ${rounds.length} rounds left out` : '';
    return `${found.rate} (${found.processor}${remark})`;
  };
  const rows = scenarios
    .map(([name, title]) => [title, ...SERVERS.map((target) => cell(name, target))])
    .filter(([, ...cells]) => cells.some(Boolean));
  const head = ['service', 'service, Redis only', 'nginx', 'nginx, Redis only', 'Fastify', 'upper bound'];
  const cheaper = scenarios.flatMap(([name, title]) =>
    [
      ['service', 'nginx', ''],
      ['service-redis', 'nginx-redis', ', Redis only'],
    ].flatMap(([ours, theirs, where]) => {
      const [mine, other] = [roundsOf(name, ours!), roundsOf(name, theirs!)];
      const isCheaper = mine && other && processorUsOf(other) < processorUsOf(mine);
      return isCheaper ? [`${title}${where}`] : [];
    }),
  );
  return [
    table(['Requests/s (CPU µs/request)', ...head], rows, 1),
    `nginx takes less CPU time than the service in these rows: ${cheaper.join('; ') || 'none'}.`,
  ].join('\n\n');
}

/** Returns the title of one of the two main scenarios. */
const mainTitle = (scenario: string) => (scenario === 'get' ? 'GET by id' : 'batch of 1000');

/** The main scenarios by autocannon, with the share of a core that each server used. */
export function autocannon(): string {
  const byScenario = Map.groupBy(results().autocannon, ({ scenario }) => scenario);
  const rows = [...byScenario].map(([scenario, cells]) => [
    mainTitle(scenario),
    ...cells.map(({ rounds: [round] }) => {
      const { requests, seconds, processorUs, busy } = round!;
      return `${whole(requests / seconds)} (${significant(processorUs)}), ${whole(100 * busy)} %`;
    }),
  ]);
  const titles = byScenario.get('get')!.map(({ target }) => (target === 'fastify' ? 'Fastify' : target));
  return table(['Requests/s (CPU µs/request), busy', ...titles], rows, 1);
}

/** Ratios, and what they do not show: floors that were missed, probes that failed, and the noise. */
export function ratios(): string {
  const found = ratiosOf(results());
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
  const speeds = results().cells.find(({ scenario, target }) => scenario === 'get' && target === 'service')!;
  const [slow, fast] = extremesOfProcesses(speeds.rounds.map(({ processorUs }) => processorUs));
  const several = found.filter(({ rounds }) => rounds.length === speeds.rounds.length);
  const ofProcesses = several.map(({ title, rounds }) => {
    const [most, least] = extremesOfProcesses(rounds).map(significant);
    return `from ${least} to ${most} (${title})`;
  });
  return [
    table(['Compared', 'Ratio, median', 'Rounds', 'By the other measure', 'Floor', 'Aim'], rows, 1),
    `Floors missed: ${named || 'none'}.`,
    ...results().sentences.filter((sentence) => sentence.startsWith('The probe ')),
    `The median CPU time of a GET differed by ${whole(100 * (slow / fast - 1))} % between ${PROCESSES} processes of this service, ` +
      'by the load of the host and the layout of their memory. Ratios, which are of rounds in turn, differed less: their ' +
      `medians by process are ${ofProcesses.join(', and ')}.`,
  ].join('\n\n');
}

/** Returns the greatest and the least of the medians of each process, whose rounds follow one another. */
function extremesOfProcesses(rounds: number[]): [greatest: number, least: number] {
  const each = Math.ceil(rounds.length / PROCESSES);
  const medians = Array.from({ length: PROCESSES }, (_, i) => median(rounds.slice(i * each, (i + 1) * each)));
  return [Math.max(...medians), Math.min(...medians)];
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
  const ms = (us: number) => significant(us / 1000);
  const { sweep } = results();
  const targets = ['service', 'service-redis', 'nginx', 'fastify'];
  const points = Map.groupBy(sweep, ({ scenario, perSecond }) => `${scenario} ${perSecond}`);
  const rows = [...points.values()].map((point) => {
    const { scenario, perSecond } = point[0]!;
    const cells = targets.map((target) => {
      const found = point.find((each) => each.target === target);
      if (!found) return '';
      return `${ms(found.p50Us)} / ${ms(found.p99Us)}${found.faultCount > 0 ? ` (${found.faultCount} failed)` : ''}`;
    });
    return [mainTitle(scenario), grouped(perSecond), ...cells];
  });
  return table(['p50 / p99 in ms', 'due/s', 'service', 'service, Redis only', 'nginx', 'Fastify'], rows, 1);
}

export function compression(): string {
  const rows = results().compression.map(({ encoding, level, ms, ratio }) => [
    `${encoding} ${level}`,
    significant(ms),
    `1/${significant(ratio)}`,
  ]);
  return table(['Coding and level', 'ms', 'Size'], rows, 1);
}

export function sizes(): string {
  const measured: Sizes = JSON.parse(read('bench/results/sizing.json'));
  const memory = (bytes: number) =>
    bytes < 1e9 ? `${whole(bytes / 1e6)} MB` : `${significant(bytes / 1e9)} GB`;
  const row = (title: string, bytes: number) => [
    title,
    whole(bytes),
    ...[1e5, 1e6, 1e7].map((hotels) => memory(bytes * hotels)),
  ];
  const { hotels, jsonBytes, redisKeys, ...bytes } = measured;
  const perSecond = (changes: number) => whole(Number(changes.toPrecision(2)));
  const sizesOf = table(
    [
      `With ${whole(hotels)} hotels of ${whole(jsonBytes)} bytes of JSON`,
      'bytes per hotel',
      '100,000 hotels',
      '1,000,000',
      '10,000,000',
    ],
    [
      row('local cache of a worker (`L1_MAX_BYTES`)', bytes.localCacheBytes),
      row(`Redis, ${redisKeys.toFixed(2)} keys per hotel`, bytes.redisBytes),
      row('PostgreSQL: table', bytes.tableBytes),
      row('PostgreSQL: indexes', bytes.indexBytes),
    ],
    1,
  );
  return [
    sizesOf,
    `Beside its local cache, a worker took ${whole(measured.workerMiB)} MiB, and the primary process ${whole(measured.primaryMiB)} MiB. ` +
      `The sequencer gave positions to ${perSecond(measured.bulkHotelsPerSecond)} hotels per second of one statement.`,
  ].join('\n\n');
}

/** What 10 million hotels a day cost at ten times the mean, and multiples of it. */
export function growth(): string {
  const { compression, meanHotelBytes } = results();
  const peak = (perDay: number) => (10 * perDay) / 86_400;
  const seconds = (scenario: string, target: string) => processorUsOf(roundsOf(scenario, target)!) / 1e6;
  const cores = (suffix: string, target: string) =>
    peak(9_000) * seconds(`batch-1000${suffix}`, target) + peak(1_000_000) * seconds(`get${suffix}`, target);
  const megabits = (peak(10_000_000) * meanHotelBytes * 8) / 1e6;
  const { ratio } = compression.find(({ level }) => level === 'of the service')!;
  const withGzip = cores('-go', 'service');
  const row = (title: string, of: (times: number) => string) => [title, ...[1, 10, 100, 1000].map(of)];
  const used = (value: number) => (times: number) => (value * times).toPrecision(2);
  return table(
    ['At the peak', 'this load', '× 10', '× 100', '× 1000'],
    [
      row(
        'batches of 1000 / single hotels per second',
        (times) => `${whole(peak(9_000 * times))} / ${whole(peak(1e6 * times))}`,
      ),
      row('cores, all from local caches', used(cores('', 'service'))),
      row('cores with gzip', used(withGzip)),
      row('cores without local caches', used(cores('', 'service-redis'))),
      row(
        'bodies in Mbit/s, uncompressed / gzip',
        (times) => `${whole(megabits * times)} / ${whole((megabits / ratio) * times)}`,
      ),
      row('changes per second', (times) => whole(peak(10_000 * times))),
      row('pods of two workers at 60 %, with gzip', (times) =>
        String(Math.max(3, Math.ceil((withGzip * times) / 1.2))),
      ),
    ],
    1,
  );
}

const GIGABIT_BYTES = 1e9 / 8;

export function rates(): string {
  const { cells, meanHotelBytes } = results();
  const rows = cells.flatMap(({ scenario, target }) => {
    const [known, batch, gzip] = /^(?:get|batch-(\d+))(-go)?$/.exec(scenario) ?? [];
    if (!known || (target !== 'service' && target !== 'service-redis')) return [];
    const hotels = Number(batch ?? 1);
    const processorUs = processorUsOf(roundsOf(scenario, target)!);
    const perCore = 1e6 / processorUs;
    return [
      [
        `${batch ? `batch of ${batch}` : 'GET by id'}${gzip ? ', `gzip`' : ''}`,
        target === 'service' ? 'local cache' : 'Redis',
        significant(processorUs),
        whole(perCore),
        whole(perCore * hotels),
        significant((perCore * hotels * meanHotelBytes) / GIGABIT_BYTES),
      ],
    ];
  });
  return table(
    ['Request', 'Answered from', 'CPU µs', 'requests/s per core', 'hotels/s per core', 'Gbit/s uncompressed'],
    rows,
    2,
  );
}
