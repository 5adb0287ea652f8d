import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { type Course, type Fault, inForm, survive, type Verdict, verdict } from './fault.ts';
import { now } from './load.ts';
import { Stand } from './stand.ts';
import { failures, tally } from './tally.ts';

let stand: Stand;
let victim: number;

beforeAll(async () => {
  // those of workers that were killed stay for a moment
  stand = await Stand.open({ maxConnections: 120 });
});

interface Line {
  time: string;
  msg: string;
  workerPid: number;
  restartInMs: number;
  signal: string | null;
}

const linesOf = (msg: string): Line[] =>
  stand.service
    .logs()
    .filter((line) => line.startsWith('{'))
    .map((line): Line => JSON.parse(line))
    .filter((line) => line.msg === msg);

/** Resolves when another worker listens than those that did when so many had been told of. */
async function replaced(startedBefore: number): Promise<void> {
  for (const untilMs = now() + 20_000; started() <= startedBefore && now() < untilMs; ) await sleep(5);
}
const started = (): number => linesOf('worker started').length;

/** What is promised when a worker ends: what it had in hand is lost, the rest is answered, and soon it is replaced. */
const lost =
  (replacedWithinMs: number, inHand: (course: Course) => number) =>
  (course: Course): Verdict => {
    const whole = tally(course.all);
    const beganMs = course.all[0]!.dueMs;
    const late = course.all.filter(
      ({ outcome, dueMs }) => outcome === 'lost' && dueMs > beganMs + course.lastedMs + AN_INSTANT_MS,
    );
    return verdict(
      [
        [whole.wrong + whole.silent + whole.unavailable === 0, 'requests were answered otherwise than well'],
        [whole.lost <= inHand(course), `${whole.lost} requests were lost`],
        [late.length === 0, `${late.length} requests were lost after it was replaced`],
      ],
      [[course.lastedMs <= replacedWithinMs, `it was replaced after ${Math.round(course.lastedMs)} ms`]],
    );
  };

/** Kills every worker but one as soon as it is there, until told to end. */
async function killAllBut(kept: number, goOn: () => boolean): Promise<void> {
  while (goOn()) {
    for (const pid of await stand.service.workerPids()) {
      try {
        if (pid !== kept) process.kill(pid, 'SIGKILL');
      } catch {
        // it has ended in this moment
      }
    }
    await sleep(20);
  }
}

/** The load and this process do not see the same instant. */
const AN_INSTANT_MS = 20;

/** The fault lasts until another worker listens. */
const aWorker = (
  context: TestContext,
  name: string,
  signal: NodeJS.Signals,
  judge: (course: Course) => Verdict,
) => {
  let before = 0;
  const fault: Fault = {
    name,
    shortMs: 0,
    longMs: 0,
    prepare: async () => {
      await expect.poll(() => stand.service.workerPids(), { timeout: 10_000 }).toHaveLength(2);
      await stand.calm();
      before = started();
      victim = (await stand.service.workerPids())[0]!;
    },
    begin: () => process.kill(victim, signal),
    end: () => replaced(before),
  };
  return survive(context, stand, fault, judge);
};

/** The short form shares the processors with other tests: starting Node takes as long as it takes. */
const KILLED_MS = () => inForm(3_000, 1_000);
const FROZEN_MS = () => inForm(5_000, 3_000);
/** At 200 requests/s each takes a few ms; what is sent in the instant of the death is lost too. */
const A_FEW = 10;

describe('a worker that', () => {
  it('is killed loses what it had in hand, and is replaced within a second', (context) =>
    aWorker(
      context,
      'worker killed',
      'SIGKILL',
      lost(KILLED_MS(), () => A_FEW),
    ));

  it('is aborted likewise', (context) =>
    aWorker(
      context,
      'worker aborted',
      'SIGABRT',
      lost(KILLED_MS(), () => A_FEW),
    ));

  it('is frozen is ended and replaced within three', (context) =>
    aWorker(
      context,
      'worker frozen',
      'SIGSTOP',
      // what comes to it while it is frozen is in its hand too
      lost(FROZEN_MS(), ({ during }) => during.length),
    ));

  it('is frozen before its first word is ended and replaced within three', async (context) => {
    let before = 0;
    await survive(
      context,
      stand,
      {
        name: 'worker frozen at its start',
        shortMs: 0,
        longMs: 0,
        prepare: async () => {
          await expect.poll(() => stand.service.workerPids(), { timeout: 10_000 }).toHaveLength(2);
          await stand.calm();
          before = started();
          const old = await stand.service.workerPids();
          process.kill(old[0]!, 'SIGKILL');
          let fresh: number | undefined;
          while (fresh === undefined)
            fresh = (await stand.service.workerPids()).find((pid) => !old.includes(pid));
          process.kill(fresh, 'SIGSTOP');
        },
        begin: () => {},
        end: () => replaced(before),
      },
      lost(FROZEN_MS(), () => 0),
    );
  });

  it('dies at once on every start is retried with growing pauses, and the others go on', async (context) => {
    let dying = false;
    let killing: Promise<void>;
    let endedBefore = 0;
    await survive(
      context,
      stand,
      {
        name: 'a worker dies at once on every start',
        shortMs: 2_500,
        longMs: 20_000,
        begin: async () => {
          const kept = (await stand.service.workerPids())[0]!;
          endedBefore = linesOf('worker ended, another is started').length;
          dying = true;
          killing = killAllBut(kept, () => dying);
        },
        end: () => {
          dying = false;
          return killing;
        },
      },
      lost(Infinity, () => A_FEW),
    );
    const ends = linesOf('worker ended, another is started').slice(endedBefore);
    expect(ends.length).toBeGreaterThan(inForm(1, 5));
    expect(ends.every(({ signal }) => signal === 'SIGKILL')).toBe(true);
    const pauses = ends.slice(1, -1).map(({ restartInMs }) => restartInMs);
    expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
    expect(failures(tally(stand.load.between(now() - 500, now())))).toBe(0);
  });
});
