import { join } from 'node:path';
import type { Call, LoadResult } from './load/call.ts';
import { closedLoop } from './load/closed.ts';
import { headBytesOf } from './load/connection.ts';
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

export interface Pace {
  rounds: number;
  seconds: number;
}

/** Order of the targets: those compared with each other are neighbours, because the machine's speed drifts. */
const IN_TURN: TargetName[] = [
  'fastify',
  'nginx',
  'limit',
  'service',
  'bare',
  'service-redis',
  'nginx-redis',
];

/** Duration in which each hotel of a compressed scenario is requested more than twice. */
const COMPRESSED_WARM_UP_S = 4;

/** Runs one scenario on all targets in rounds: each target once a round. */
export async function runScenario(
  { folder, tools, say, hotels, keys }: World,
  scenario: Scenario,
  targets: Target[],
  pace: Pace,
): Promise<Cell[]> {
  const chosen = targets.filter(({ name }) => !scenario.without?.includes(name));
  const calls = scenario.calls({ hotels, keys });
  const constant = Math.round(calls.reduce((sum, { bodyBytes }) => sum + bodyBytes, 0) / calls.length);
  const file = join(folder, scenario.name);
  const wrk = scenario.small ? tools.wrk : undefined;
  if (wrk) await writeCalls(file, calls);

  const callsOf = (target: Target): Call[] =>
    target.name === 'limit' ? calls.map(({ bytes }) => ({ bytes, status: 200, bodyBytes: constant })) : calls;
  const load = async (target: Target, seconds: number, from: number): Promise<LoadResult> => {
    const own = callsOf(target);
    const options = { connections: scenario.connections, seconds, from };
    if (!wrk) return closedLoop(target.port, own, options);
    const headBytes = await headBytesOf(target.port, own[from % own.length]!);
    return wrkLoop(wrk, target.port, own, { ...options, file, headBytes });
  };

  const cells = chosen.map((target): Cell => ({ scenario: scenario.name, target: target.name, rounds: [] }));
  for (const target of chosen) {
    if (target.answerWith) await target.answerWith(constant);
    else await verify(target, calls);
    await load(target, calls[0]!.mayBeCompressed && scenario.small ? COMPRESSED_WARM_UP_S : 1, 0);
  }
  const inTurn = [...chosen.entries()].sort(
    ([, a], [, b]) => IN_TURN.indexOf(a.name) - IN_TURN.indexOf(b.name),
  );
  for (let round = 0; round < pace.rounds; round++) {
    // alternates the direction, so that drift affects all targets equally
    for (const [i, target] of round % 2 === 0 ? inTurn : inTurn.toReversed()) {
      const missesBefore = target.adminPort ? await readMisses(target) : 0;
      const beforeMs = await processorTimeMs(target.pid);
      const beganAtMs = performance.now();
      // each round begins elsewhere, so that it does not hit what the last has just read
      const result = await load(target, pace.seconds, Math.floor((calls.length * (round + 1)) / 7));
      const wallMs = performance.now() - beganAtMs;
      const spentMs = (await processorTimeMs(target.pid)) - beforeMs;
      cells[i]!.rounds.push({
        ...result,
        processorUs: (spentMs * 1000) / result.requests,
        busy: spentMs / Math.min(wallMs, result.seconds * 1000),
        ...(target.adminPort && { localMisses: (await readMisses(target)) - missesBefore }),
      });
      for (const fault of result.faults) say(`  ${scenario.name}, ${target.name}: ${fault}`);
    }
  }
  return cells;
}

function readMisses(target: Target): Promise<number> {
  return readMetric(target, 'hotel_api_cache_answers_total', 'tier="redis"');
}
