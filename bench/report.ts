import { median, significant, spread } from './figures.ts';
import { type Ratio, ratiosOf } from './ratios.ts';
import type { Results } from './results.ts';
import { type Cell, soundRounds } from './rounds.ts';
import { SCENARIOS } from './scenarios.ts';
import { TITLES } from './targets/target.ts';

const PERCENT = 100;
/** Below this the server did not saturate its core: the generator, Redis or another program was the bottleneck. */
export const SATURATED = 0.9;

/** Returns the tables of a run as text. */
export function report(results: Results): string {
  const { machine, meanHotelBytes, hotels } = results;
  const lines = [
    `${machine.processor}, ${machine.cores} cores, Linux ${machine.kernel}, Node ${machine.node}; commit ${results.commit}; ${hotels} hotels of ${Math.round(meanHotelBytes)} bytes on average; one worker.`,
    ...results.sentences,
    '',
    'Medians of the rounds without faults; ± is half the distance from the smallest to the largest. "us/req": CPU time of the',
    'server\'s processes a request, user and system, from /proc/PID/stat. "busy": of one core; where it is marked with ~',
    'the server was not the bottleneck; its CPU time is then more reliable than its rate.',
  ];
  for (const [name, cells] of Map.groupBy(results.cells, ({ scenario }) => scenario)) {
    const title = SCENARIOS.find((scenario) => scenario.name === name)?.title ?? name;
    lines.push('', title, header(), ...cells.map(row));
  }
  if (results.autocannon.length > 0)
    lines.push('', 'The same by autocannon', header(), ...results.autocannon.map(row));
  if (results.sweep.length > 0) lines.push('', ...sweepTable(results));
  for (const { what, ours, theirs } of results.probes)
    lines.push(
      '',
      `${what}: ${significant(median(ours))} ± ${percent(spread(ours))} against ${significant(median(theirs))}`,
    );
  if (results.compression.length > 0) lines.push('', ...compressionTable(results));
  lines.push('', ...ratioTable(ratiosOf(results)));
  return lines.join('\n');
}

/** Returns the columns of a row, right-aligned. */
const columns = (values: (string | number)[], width = 10) =>
  values.map((value) => String(value).padStart(width)).join('');

function header(): string {
  return `  ${'target'.padEnd(30)}${columns(['req/s', 'us/req', '±', 'busy', 'p50 us', 'p99 us', 'faults'])}`;
}

function row({ target, scenario, rounds }: Cell): string {
  const of = (pick: (round: Cell['rounds'][number]) => number) => median(soundRounds(rounds).map(pick));
  const busy = of((round) => round.busy);
  const name = TITLES[target as keyof typeof TITLES] ?? target;
  const figures = [
    of(({ requests, seconds }) => requests / seconds).toFixed(0),
    significant(of((round) => round.processorUs)),
    percent(spread(soundRounds(rounds).map((round) => round.processorUs))),
    `${busy < SATURATED ? '~' : ''}${percent(busy)}`,
    of((round) => round.p50Us).toFixed(0),
    of((round) => round.p99Us).toFixed(0),
    rounds.reduce((sum, { faultCount }) => sum + faultCount, 0),
  ];
  const misses = target === 'service' ? of((round) => (round.localMisses ?? 0) / round.requests) : 0;
  const remark = misses > 0.001 ? `  asked Redis for ${misses.toFixed(3)} keys a request (${scenario})` : '';
  return `  ${name.padEnd(30)}${columns(figures)}${remark}`;
}

function sweepTable({ sweep }: Results): string[] {
  const lines = ['Open loop: requests are due at a fixed rate, latency from the due time'];
  for (const scenario of new Set(sweep.map((point) => point.scenario))) {
    lines.push(`  ${scenario.padEnd(30)}${columns(['due/s', 'p50 us', 'p99 us', 'faults'])}`);
    const points = sweep.filter((point) => point.scenario === scenario);
    for (const { target, perSecond, p50Us, p99Us, faultCount } of points) {
      const title = TITLES[target as keyof typeof TITLES];
      lines.push(`  ${title.padEnd(30)}${columns([perSecond, p50Us, p99Us, faultCount])}`);
    }
  }
  return lines;
}

function compressionTable({ compression }: Results): string[] {
  return [
    'A batch of 1000, compressed on one core',
    `  ${'encoding and level'.padEnd(30)}${columns(['ms', 'ratio'])}`,
    ...compression.map(
      ({ encoding, level, ms, ratio }) =>
        `  ${`${encoding} ${level}`.padEnd(30)}${columns([significant(ms), significant(ratio)])}`,
    ),
  ];
}

function ratioTable(ratios: Ratio[]): string[] {
  return [
    'Ratios to the named target. By CPU time a request: theirs / ours; by rate: ours / theirs; above 1, ours is',
    'better. "other": the same by the other measure.',
    `  ${''.padEnd(56)}${'by'.padEnd(16)}${columns(['ratio', 'from', 'to', 'floor', 'aim', 'other', 'verdict'], 9)}`,
    ...ratios.map(({ title, by = '', value, rounds, floor, aim, atMost, other, decision }) => {
      const bound = (limit: number) => `${atMost ? '<=' : '>='}${limit}`;
      const figures = [
        significant(value),
        significant(Math.min(...rounds)),
        significant(Math.max(...rounds)),
        bound(floor),
        bound(aim),
        other === undefined ? '' : significant(other),
        decision,
      ];
      return `  ${title.padEnd(56)}${by.padEnd(16)}${columns(figures, 9)}`;
    }),
  ];
}

function percent(part: number): string {
  return `${(part * PERCENT).toFixed(0)}%`;
}
