import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { shortOrLong } from '../support/run-length.ts';
import { decision, type FaultResult, survive } from './fault-result.ts';
import type { Fault, FaultScenario } from './fault-scenario.ts';
import { countOutcomes, failures } from './outcome-counts.ts';
import { now } from './sample.ts';
import { Fixture, isNormal } from './service-fixture.ts';

await needs('redis-server');

/** Starting Node takes half of the second, and three times as long on a busy machine. */
const KILLED_MS = shortOrLong(2_000, 1_000);
const FROZEN_MS = shortOrLong(4_000, 3_000);
/**
 * At 200 requests/s each takes a few ms; requests sent at the time of the exit are lost too. On a busy machine a worker
 * holds those of half a second when it exits.
 */
const A_FEW = shortOrLong(100, 10);
/** Share of requests that may be rejected: on a busy machine the other worker alone sheds batches. */
const MAX_REJECTED_SHARE = shortOrLong(1 / 3, 0);
/** Tolerance between the clocks of the load generator and this process. */
const AN_INSTANT_MS = 20;

let fixture: Fixture;
let victim: number;

beforeAll(async () => {
  // connections of killed workers remain for a moment
  fixture = await Fixture.open({ maxConnections: 120 });
});

const logged = (msg: string) => linesOf(fixture.service.logs(), msg);

/** Resolves when a worker has started after this number of starts. */
async function replaced(startedBefore: number): Promise<void> {
  for (const untilMs = now() + 100_000; started() <= startedBefore && now() < untilMs; ) await sleep(5);
}
const started = (): number => logged('worker started').length;

/** Checks the promises for the exit of a worker: requests in progress are lost, others served, and it is soon replaced. */
const lost =
  (replacedWithinMs: number, maxLost: number) =>
  (scenario: FaultScenario): FaultResult => {
    const whole = countOutcomes(scenario.all);
    const beganMs = scenario.all[0]!.dueMs;
    // a load that stalls has not read of the exit, and sends on the connections of the dead worker
    const lateMs = AN_INSTANT_MS + scenario.loadLateMs;
    const late = scenario.all.filter(
      ({ outcome, dueMs }) => outcome === 'lost' && dueMs > beganMs + scenario.lastedMs + lateMs,
    );
    return decision({
      answers: [
        [whole.wrong + whole.silent === 0, 'requests had wrong responses or none'],
        [late.length === 0, `${late.length} requests were lost after it was replaced`],
      ],
      errorReplies: [
        [
          whole.unavailable <= MAX_REJECTED_SHARE * scenario.all.length,
          `${whole.unavailable} requests were rejected`,
        ],
        [whole.lost <= maxLost, `${whole.lost} requests were lost`],
      ],
      times: [
        [scenario.lastedMs <= replacedWithinMs, `it was replaced after ${Math.round(scenario.lastedMs)} ms`],
      ],
    });
  };

/** Checks the same for a frozen worker, which also holds new requests of its share. */
function expectOneWorkerLost(scenario: FaultScenario): FaultResult {
  const { during } = scenario;
  const well = during.filter(isNormal).length;
  const { rejected, ...rest } = lost(FROZEN_MS, during.length)(scenario);
  const others = decision({
    errorReplies: [
      [well >= during.length / 3, `of ${during.length} requests only ${well} were served normally`],
    ],
  });
  return { ...rest, rejected: [...rejected, ...others.rejected] };
}

/**
 * Resolves with the pid of a new worker once it runs its program. Stopping it earlier would also stop the primary, which
 * waits for the result of its start.
 */
async function begun(old: number[]): Promise<number> {
  const programOf = (pid: number) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => undefined);
  const primary = await programOf(fixture.service.pid);
  for (;;) {
    const fresh = (await fixture.service.workerPids()).find((pid) => !old.includes(pid));
    const program = fresh && (await programOf(fresh));
    if (fresh && program && program !== primary) return fresh;
  }
}

/** Kills every other worker as soon as it exists, while `isRunning` returns true. */
async function killAllBut(kept: number, isRunning: () => boolean): Promise<void> {
  while (isRunning()) {
    for (const pid of await fixture.service.workerPids()) {
      try {
        if (pid !== kept) process.kill(pid, 'SIGKILL');
      } catch {
        // it has exited meanwhile
      }
    }
    await sleep(20);
  }
}

/** Waits until two workers run and the load is served normally. */
async function twoWorkers(): Promise<number[]> {
  await expect.poll(() => fixture.service.workerPids()).toHaveLength(2);
  await fixture.untilNormal();
  return fixture.service.workerPids();
}

/** Runs a fault that lasts until another worker has started. */
const failWorker = (
  context: TestContext,
  name: string,
  signal: NodeJS.Signals,
  check: (scenario: FaultScenario) => FaultResult,
) => {
  let before = 0;
  const fault: Fault = {
    name,
    shortMs: 0,
    longMs: 0,
    prepare: async () => {
      victim = (await twoWorkers())[0]!;
      before = started();
    },
    begin: () => process.kill(victim, signal),
    end: () => replaced(before),
  };
  return survive(context, fixture, fault, check);
};

describe('a worker that', () => {
  it.for([
    ['killed', 'SIGKILL'],
    ['aborted', 'SIGABRT'],
  ] as const)(
    'is %s loses its requests in progress, and is replaced within a second',
    async ([ended, signal], context) => {
      await failWorker(context, `worker ${ended}`, signal, lost(KILLED_MS, A_FEW));
    },
  );

  it('is frozen is killed and replaced within three', (context) =>
    failWorker(context, 'worker frozen', 'SIGSTOP', expectOneWorkerLost));

  it('is frozen before its first message is killed and replaced within three', async (context) => {
    let before = 0;
    await survive(
      context,
      fixture,
      {
        name: 'worker frozen at its start',
        shortMs: 0,
        longMs: 0,
        prepare: async () => {
          const old = await twoWorkers();
          before = started();
          process.kill(old[0]!, 'SIGKILL');
          process.kill(await begun(old), 'SIGSTOP');
        },
        begin: () => {},
        end: () => replaced(before),
      },
      lost(FROZEN_MS, 0),
    );
  });

  it('exits at every start is restarted with growing pauses, while the others serve', async (context) => {
    let dying = false;
    let killing: Promise<void>;
    let endedBefore = 0;
    await survive(
      context,
      fixture,
      {
        name: 'a worker dies at once on every start',
        shortMs: 2_500,
        longMs: 20_000,
        begin: async () => {
          const kept = (await fixture.service.workerPids())[0]!;
          endedBefore = logged('worker exited').length;
          dying = true;
          killing = killAllBut(kept, () => dying);
        },
        end: () => {
          dying = false;
          return killing;
        },
      },
      lost(Infinity, A_FEW),
    );
    const ends = logged('worker exited').slice(endedBefore);
    // their number depends on the pause after earlier exits
    expect(ends.length).toBeGreaterThan(shortOrLong(1, 3));
    expect(ends.every(({ signal }) => signal === 'SIGKILL')).toBe(true);
    const pauses = ends.slice(1, -1).map(({ restartInMs }) => restartInMs!);
    expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
    expect(failures(countOutcomes(fixture.load.between(now() - 500, now())))).toBe(0);
  });
});
