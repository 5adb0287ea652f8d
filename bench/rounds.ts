import { join } from 'node:path';
import type { Call, LoadResult } from './load/call.ts';
import { closedLoop } from './load/closed.ts';
import { sendOnce } from './load/connection.ts';
import { writeCalls, wrkLoop } from './load/wrk.ts';
import { processorTimeMs } from './processor-time.ts';
import type { Scenario } from './scenarios.ts';
import { readMetric } from './targets/service.ts';
import type { Target, TargetName } from './targets/target.ts';
import { verify } from './verify.ts';
import type { World } from './world.ts';

/** Result of one round of a scenario on one target. */
export interface Round extends LoadResult {
  /** of all processes of the server, user and system, microseconds a request */
  processorUs: number;
  /** part of the time in which the server used its core, 0 to 1: near 1, the server was the bottleneck */
  busy: number;
  /** misses of the service's local cache a request; only for the service */
  localMisses?: number;
}

export interface Cell {
  scenario: string;
  target: string;
  rounds: Round[];
}

/** Number of processes of those servers whose GETs differ by little: each process has another layout of memory. */
export const PROCESSES = 4;

/** Returns the cells of a scenario with those rounds only in which each server had its turn: some have further ones. */
export function cellsInTurn(cells: Cell[], scenario: string): Cell[] {
  const found = cells.filter((cell) => cell.scenario === scenario);
  const common = Math.min(...found.map(({ rounds }) => rounds.length));
  return found.map((cell) => ({ ...cell, rounds: cell.rounds.slice(0, common) }));
}

/** Returns the rounds in which every response was the expected one; all of them if there is none. */
export function soundRounds(rounds: Round[]): Round[] {
  return soundPairs(rounds.map((round) => [round])).flat();
}

/** Returns the rounds of several targets in which every response was the expected one; all of them if there is none. */
export function soundPairs(all: Round[][]): Round[][] {
  const sound = all.filter((together) => together.every(({ faultCount }) => faultCount === 0));
  return sound.length > 0 ? sound : all;
}

export interface Pace {
  rounds: number;
  seconds: number;
  /** seconds of load before the first round, for servers that have just started; undefined: enough for warm ones */
  warmUpSeconds?: number;
}

/** Order of the targets: those compared with each other are neighbours, because the machine's speed drifts. */
const IN_TURN: TargetName[] = [
  'fastify',
  'nginx',
  'limit',
  'before',
  'service',
  'bare',
  'service-redis',
  'nginx-redis',
];

/** Number of small responses that a service compresses in a second; each hotel is requested twice before it is measured. */
const COMPRESSED_PER_SECOND = 5_000;

/** Runs one scenario on all targets in rounds: each target once a round. */
export function runScenario(
  world: World,
  scenario: Scenario,
  targets: Target[],
  pace: Pace,
): Promise<Cell[]> {
  return runInterleaved(
    world,
    targets.map((target) => ({ scenario, target })),
    pace,
  );
}

/**
 * Does the work while the target has its core to itself, and the idle servers share the other one: they wake up, and their
 * memory displaces that of the target from caches.
 */
export async function alone<Result>(
  { cores }: Pick<World, 'cores'>,
  { pid }: Target,
  work: () => Promise<Result>,
): Promise<Result> {
  await cores.move(pid, 'server');
  try {
    return await work();
  } finally {
    await cores.move(pid, 'others');
  }
}

/** Runs scenarios on targets in rounds: each pair once a round, except where the target does not support the scenario. */
export async function runInterleaved(
  world: World,
  pairs: { scenario: Scenario; target: Target }[],
  pace: Pace,
): Promise<Cell[]> {
  // Redis is the bottleneck of batches: idle servers would slow it down
  const isAlone = pairs.every(({ scenario }) => scenario.small);
  for (const { target } of pairs) await world.cores.move(target.pid, isAlone ? 'others' : 'server');
  const during = <Result>(target: Target, work: () => Promise<Result>) =>
    isAlone ? alone(world, target, work) : work();
  const prepared = new Map<Scenario, Prepared>();
  const cells: { cell: Cell; target: Target; of: Prepared }[] = [];
  for (const { scenario, target } of pairs) {
    if (scenario.without?.includes(target.name)) continue;
    const of = prepared.get(scenario) ?? (await prepare(world, scenario));
    prepared.set(scenario, of);
    const { calls, constant } = of;
    if (target.answerWith) await target.answerWith(constant);
    else await verify(target, calls);
    await during(target, () => of.load(target, pace.warmUpSeconds ?? warmUpSeconds(scenario, calls), 0));
    cells.push({ cell: { scenario: scenario.name, target: target.name, rounds: [] }, target, of });
  }
  const inTurn = cells.toSorted((a, b) => IN_TURN.indexOf(a.target.name) - IN_TURN.indexOf(b.target.name));
  for (let round = 0; round < pace.rounds; round++) {
    // alternates the direction, so that drift affects all targets equally
    for (const { cell, target, of } of round % 2 === 0 ? inTurn : inTurn.toReversed()) {
      if (prepared.size > 1) await target.answerWith?.(of.constant);
      const result = await during(target, async () => {
        const missesBefore = target.adminPort ? await readMisses(target) : 0;
        const beforeMs = await processorTimeMs(target.pid);
        const beganAtMs = performance.now();
        // each round begins elsewhere, so that it does not hit what the last has just read
        const sent = await of.load(target, pace.seconds, Math.floor((of.calls.length * (round + 1)) / 7));
        const wallMs = performance.now() - beganAtMs;
        const spentMs = (await processorTimeMs(target.pid)) - beforeMs;
        return {
          ...sent,
          processorUs: (spentMs * 1000) / sent.requests,
          busy: spentMs / Math.min(wallMs, sent.seconds * 1000),
          ...(target.adminPort && { localMisses: (await readMisses(target)) - missesBefore }),
        };
      });
      cell.rounds.push(result);
      for (const fault of result.faults) world.log(`  ${cell.scenario}, ${target.name}: ${fault}`);
    }
  }
  return cells.map(({ cell }) => cell);
}

/** Servers are warm from earlier scenarios, except for compressed forms. wrk takes whole seconds. */
function warmUpSeconds({ small }: Scenario, calls: Call[]): number {
  if (!small) return 0.5;
  return calls[0]!.mayBeCompressed ? Math.ceil(calls.length / COMPRESSED_PER_SECOND) : 1;
}

/** Requests of a scenario. */
interface Prepared {
  calls: Call[];
  /** mean size of the responses */
  constant: number;
  load(target: Target, seconds: number, from: number): Promise<LoadResult>;
}

async function prepare(
  { folder, tools, hotels, keys }: World,
  { name, calls: callsOf, small, connections }: Scenario,
): Promise<Prepared> {
  const calls = callsOf({ hotels, keys });
  const constant = Math.round(calls.reduce((sum, { bodyBytes }) => sum + bodyBytes, 0) / calls.length);
  const ofLimit = calls.map(({ bytes }) => ({ bytes, status: 200, bodyBytes: constant }));
  const file = join(folder, name);
  const wrk = small ? tools.wrk : undefined;
  if (wrk) await writeCalls(file, calls);
  const load = async (target: Target, seconds: number, from: number): Promise<LoadResult> => {
    const own = target.answerWith ? ofLimit : calls;
    const options = { connections, seconds, from };
    if (!wrk) return closedLoop(target.port, own, options);
    // lengths of compressed responses are not checked
    const isChecked = !calls[0]!.mayBeCompressed;
    const headBytes = isChecked ? (await sendOnce(target.port, own[from % own.length]!)).headBytes : 0;
    return wrkLoop(wrk, target.port, own, { ...options, file, headBytes });
  };
  return { calls, constant, load };
}

function readMisses(target: Target): Promise<number> {
  return readMetric(target, 'hotel_api_cache_lookups_total', 'tier="redis"');
}
