import { median, significant, whole } from './figures.ts';
import { table } from './markdown.ts';
import { WORKERS } from './probes/workers.ts';
import { ratiosOf } from './ratios.ts';
import type { Results } from './results.ts';
import { cellsInTurn, type Round, soundRounds } from './rounds.ts';
import { SCENARIOS } from './scenarios.ts';

/** Below this the server did not saturate its core: the generator, Redis or another program was the bottleneck. */
const SATURATED = 0.9;

const SERVERS = {
  service: 'service',
  'service-redis': 'service, Redis only',
  nginx: 'nginx',
  'nginx-redis': 'nginx, Redis only',
  fastify: 'Fastify',
  limit: 'upper bound',
};

/** Returns the columns of both main scenarios, with further ones behind the CPU time. */
export const mainColumns = (...further: string[]): string[] =>
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
export function measured({ cells }: Results, scenario: string, target: string): Measured | undefined {
  const all = cellsInTurn(cells, scenario).find((cell) => cell.target === target)?.rounds;
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

export function throughput(results: Results): string {
  const found = SCENARIOS.map(({ name, title }) => ({
    title,
    cells: Object.keys(SERVERS).map((target) => measured(results, name, target)),
  })).filter(({ cells }) => cells.some(Boolean));
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
export function autocannon(results: Results): string {
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
export function ratios(results: Results): string {
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
export function workers(results: Results): string {
  const rows = WORKERS.map((count) => [
    String(count),
    ...['get', 'batch-1000'].flatMap((name) => {
      const { rate, processor, latency } = measured(results, `workers-${name}`, `workers-${count}`)!;
      const limit = measured(results, `workers-${name}`, `limit-${count}`)!.processor;
      return [rate.replace('~', ''), processor, limit, latency];
    }),
  ]);
  return table(['Workers', ...mainColumns('upper bound, CPU µs')], rows, 1);
}

export function latency(results: Results): string {
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

export function compression(results: Results): string {
  const rows = results.compression.map(({ encoding, level, ms, ratio }) => [
    `${encoding} ${level}`,
    significant(ms),
    `1/${significant(ratio)}`,
  ]);
  return table(['Coding and level', 'ms', 'Size'], rows, 1);
}
