import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Shutdown } from '../src/lib/shutdown.ts';
import { checkWithAutocannon } from './autocannon-check.ts';
import { originOf } from './origin.ts';
import { plotProcessorTime, plotSweep } from './plot.ts';
import { before } from './probes/before.ts';
import { cold } from './probes/cold.ts';
import { collection } from './probes/collection.ts';
import { compressedGets } from './probes/compressed-gets.ts';
import { compression } from './probes/compression.ts';
import { deepPage } from './probes/deep-page.ts';
import { eventLoop } from './probes/event-loop.ts';
import { hiddenHotels } from './probes/hidden-hotels.ts';
import { partialCache } from './probes/partial-cache.ts';
import type { Probe } from './probes/probe.ts';
import { workers } from './probes/workers.ts';
import { report } from './report.ts';
import type { Results } from './results.ts';
import { type Cell, type Pace, PROCESSES, runInterleaved } from './rounds.ts';
import { SCENARIOS } from './scenarios.ts';
import { sweep } from './sweep.ts';
import { startNginx } from './targets/nginx.ts';
import { startFastify, startLimit } from './targets/peers.ts';
import { startService } from './targets/service.ts';
import { type Target, TITLES } from './targets/target.ts';
import { warm } from './warm.ts';
import { startWorld, type World } from './world.ts';

const MILLION = 1_000_000;
const STOP_DEADLINE_MS = 12_000;
const RESULTS = fileURLToPath(new URL('./results/', import.meta.url));
const BARE = new URL('./targets/bare-service.mjs', import.meta.url).href;

/** Scenarios with target ratios: they run longer, and are part of `--quick`. */
const PROMISED = ['get', 'batch-1000'];
const QUICK = ['get', 'batch-10', 'batch-1000'];
/** Servers that are started anew with the service, because their GETs differ from its own by little. */
const ANEW = ['limit', 'bare'];
const PACE: Record<'quick' | 'usual' | 'grouped' | 'promised', Pace> = {
  quick: { rounds: 3, seconds: 1 },
  usual: { rounds: 3, seconds: 1 },
  grouped: { rounds: 5, seconds: 1 },
  promised: { rounds: 12, seconds: 1 },
};

/** Default numbers of hotels, of the whole and of the quick run. */
export const USUAL_HOTELS = 100_000;

interface RunOptions {
  quick: boolean;
  /** names of scenarios and probes; undefined: all */
  only: string[] | undefined;
  hotels: number;
  /** rounds of each scenario and server; undefined: the default of each */
  rounds: number | undefined;
  /** servers to compare with; undefined: all */
  beside: string[] | undefined;
  /** folder of the results; undefined: bench/results, which an incomplete run does not replace */
  out: string | undefined;
}

/** Names for `--beside`. */
export const PEERS = Object.keys(TITLES).filter((name) => name !== 'service' && name !== 'before');

/** Names for `--only`. */
export const PARTS = [
  ...SCENARIOS.map(({ name }) => name),
  'sweep',
  'autocannon',
  'cold',
  'event-loop',
  'compression',
  'compressed-gets',
  'before',
  'deep-page',
  'partial-cache',
  'collection',
  'hidden-hotels',
  'workers',
];

/** Runs the benchmarks, writes bench/results and prints the tables. `shutdown` releases everything started. */
export async function runBenchmarks(options: RunOptions, shutdown: Shutdown): Promise<void> {
  const { quick, only, hotels, rounds, beside = PEERS, out = RESULTS } = options;
  const beganAtMs = performance.now();
  const log = (sentence: string) =>
    console.error(`${((performance.now() - beganAtMs) / 1000).toFixed(0).padStart(4)} s  ${sentence}`);
  const chosen = (name: string, inQuick: boolean) => (only ? only.includes(name) : !quick || inQuick);

  const scenarios = SCENARIOS.filter(({ name }) => chosen(name, QUICK.includes(name)));
  const wanted = {
    wrk: scenarios.some(({ small }) => small),
    nginx: beside.some((name) => name.startsWith('nginx')),
  };
  const world = await startWorld(hotels, wanted, shutdown, log);
  log(world.cores.sentence);
  const targets = await startTargets(world, beside);
  const [service] = targets as [Target];
  await warmUp(world, targets, log);

  const results = await emptyResults(world, quick);
  const paceOf = (name: keyof typeof PACE) => {
    const usual = PACE[quick ? 'quick' : name];
    return { ...usual, rounds: rounds ?? usual.rounds };
  };
  for (const [name, group] of Map.groupBy(scenarios, ({ name, group = name }) => group)) {
    log(group.map(({ title }) => title).join(', '));
    const pace = paceOf(PROMISED.includes(name) ? 'promised' : group.length > 1 ? 'grouped' : 'usual');
    const measure = (requested: Target[]) =>
      runInterleaved(
        world,
        group.flatMap((scenario) => requested.map((target) => ({ scenario, target }))),
        pace,
      );
    // the cost of observability is measured in one scenario
    results.cells.push(
      ...(await measure(name === 'get' ? targets : targets.filter((target) => target.name !== 'bare'))),
    );
    if (name !== 'get') continue;
    await targets.find((target) => target.name === 'bare')?.stop();
    const again = beside.filter((each) => ANEW.includes(each));
    for (let i = 1; again.length > 0 && i < PROCESSES && !quick; i++) {
      const started = await startTargets(world, again);
      await warmUp(world, started, log);
      for (const { scenario, target, rounds } of await measure(started))
        results.cells
          .find((cell) => cell.scenario === scenario && cell.target === target)!
          .rounds.push(...rounds);
      for (const target of started) await target.stop();
    }
  }
  const probe = async (name: string, inQuick: boolean, run: () => Promise<Probe | (Probe | Cell)[]>) => {
    if (!chosen(name, inQuick)) return;
    log(name);
    try {
      for (const each of [await run()].flat()) {
        if ('scenario' in each) results.cells.push(each);
        else results.probes.push(each);
      }
    } catch (error) {
      results.sentences.push(`The probe ${name} failed: ${(error as Error).message}.`);
    }
  };
  await probe('event-loop', true, () => eventLoop(world, service, quick ? 1 : 3));
  await probe('cold', true, () => cold(world, quick ? 10 : 30));
  if (chosen('compression', true)) {
    log('compression');
    results.compression = compression(world);
  }
  if (chosen('autocannon', false)) {
    log('the main scenarios by autocannon');
    results.autocannon = await checkWithAutocannon(world, targets, 2);
  }
  if (chosen('sweep', false)) {
    log('sweep: open loop at fixed rates');
    results.sweep = await sweep(world, targets, 2);
  }
  await probe('compressed-gets', false, () => compressedGets(world, paceOf('grouped')));
  await probe('before', false, () => before(world, paceOf('promised')));
  await probe('deep-page', false, () => deepPage(world, MILLION, 5));
  await probe('collection', false, () => collection(world, service, 5));
  await probe('hidden-hotels', false, () => hiddenHotels(world, service, 5));
  await probe('partial-cache', false, () => partialCache(world, 13));
  await probe('workers', false, () => workers(world, paceOf('promised')));

  const isWhole = !only && !options.beside && !rounds && hotels === USUAL_HOTELS;
  await write(results, out, isWhole ? (quick ? 'quick' : 'latest') : 'partial');
  console.log(report(results));
  log('done');
}

/** Reads all hotels through the targets with a cache of their own. */
async function warmUp(world: World, targets: Target[], log: (sentence: string) => void): Promise<void> {
  for (const target of targets) {
    if (['service-redis', 'nginx-redis', 'fastify', 'limit'].includes(target.name)) continue;
    log(`Warming up ${target.name} …`);
    await warm(target, world);
  }
}

/** Starts the targets, the service first. */
async function startTargets(world: World, beside: string[]): Promise<Target[]> {
  const { targetOptions: around, tools, shutdown } = world;
  const starts: Record<Exclude<keyof typeof TITLES, 'before'>, () => Promise<Target>> = {
    service: () => startService(around, { name: 'service' }),
    'service-redis': () =>
      startService(around, { name: 'service-redis', environment: { L1_MAX_BYTES: '0' } }),
    fastify: () => startFastify(around),
    nginx: () => startNginx(around, true),
    'nginx-redis': () => startNginx(around, false),
    limit: () => startLimit(around),
    bare: () => startService(around, { name: 'bare', nodeOptions: [`--import=${BARE}`] }),
  };
  const targets: Target[] = [];
  for (const [name, start] of Object.entries(starts)) {
    if (name !== 'service' && !beside.includes(name)) continue;
    if (name.startsWith('nginx') && !tools.nginx) continue;
    const target = await start();
    shutdown.push(target.name, target.stop, STOP_DEADLINE_MS);
    targets.push(target);
  }
  return targets;
}

async function emptyResults({ hotels, cores, tools, sql, redis }: World, quick: boolean): Promise<Results> {
  return {
    ...(await originOf(sql, redis)),
    quick,
    hotels: hotels.length,
    meanHotelBytes: hotels.reduce((sum, { fullBytes }) => sum + fullBytes, 0) / hotels.length,
    sentences: [
      cores.sentence,
      'Requests with small responses are sent by wrk, others by a generator over plain sockets. autocannon would be the',
      'bottleneck; it repeats the main scenarios. The peers send content-type, content-length and the headers of their',
      'servers; the service and the upper bound also send ETag, Cache-Control, Vary, Keep-Alive and x-request-id.',
      ...tools.sentences,
    ],
    cells: [],
    sweep: [],
    probes: [],
    compression: [],
    autocannon: [],
  };
}

async function write(results: Results, out: string, name: 'latest' | 'quick' | 'partial'): Promise<void> {
  mkdirSync(out, { recursive: true });
  const put = (file: string, text: string) => writeFileSync(join(out, file), text);
  // one measurement a line; line breaks inside a string are escaped, so that only the layout changes
  const text = JSON.stringify(results, null, 1).replace(/\{[^{}]*\}/g, (one) => one.replace(/\n */g, ' '));
  put(`${name}.json`, `${text}\n`);
  const prefix = name === 'latest' ? '' : `${name}-`;
  if (results.cells.length > 0) put(`${prefix}processor-time.svg`, await plotProcessorTime(results));
  if (results.sweep.length > 0) put(`${prefix}open-loop.svg`, await plotSweep(results));
}
