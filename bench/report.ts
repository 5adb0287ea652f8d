import { inColumns } from '../src/cli/common/print.ts';
import { whole } from './figures.ts';
import type { Results } from './results.ts';
import { autocannon, compression, latency, ratios, throughput, workers } from './tables.ts';

/** Returns the tables of a run as text, as in docs/benchmarks.md. */
export function report(results: Results): string {
  const { machine, meanHotelBytes, hotels, commit, sentences } = results;
  const hasWorkers = results.cells.some(({ scenario }) => scenario.startsWith('workers-'));
  const head = [
    `${machine.processor}, ${machine.cores} cores, Linux ${machine.kernel}, Node ${machine.node}; commit ${commit}; ${hotels} hotels of ${whole(meanHotelBytes)} bytes on average; one worker.`,
    ...sentences,
    'Medians of the rounds without faults. ~ marks a rate at which the server used less than 90 % of its core, so that it was',
    'not the bottleneck: its CPU time is then more reliable than its rate.',
  ];
  return [
    head.join('\n'),
    aligned(throughput(results)),
    results.autocannon.length > 0 ? aligned(autocannon(results)) : '',
    results.sweep.length > 0 ? aligned(latency(results)) : '',
    hasWorkers ? aligned(workers(results)) : '',
    results.compression.length > 0 ? aligned(compression(results)) : '',
    aligned(ratios(results)),
  ]
    .filter(Boolean)
    .join('\n\n');
}

/** Pads the cells of a table for a terminal. */
function aligned(text: string): string {
  const [table, ...further] = text.split('\n\n');
  const rows = table!
    .split('\n')
    .filter((line) => !/^\|[-:|]+$/.test(line))
    .map((line) => line.slice(2, -2).split(' | '));
  return [inColumns(rows), ...further].join('\n\n');
}
