import { setTimeout as sleep } from 'node:timers/promises';
import { Draw } from '../../src/cli/seed/draw.ts';
import { closeAll } from '../support/cleanup.ts';
import { AnswerChecker } from './answer-checker.ts';
import { WriterRejected } from './database.ts';
import { seconds } from './explain.ts';
import { Faults } from './faults.ts';
import { EVERYTHING, OTHERS, Reader } from './reader.ts';
import { Stalls } from './stalls.ts';
import type { Step } from './steps.ts';
import { type Served, System } from './system.ts';
import { UPDATE, write } from './writes.ts';

/** Result of an episode. */
export interface Outcome {
  answers: number;
  rejected: number;
  unanswered: number;
  /** responses that an overloaded machine gave, which are not compared */
  unjudged: number;
  /** duration of stalls, which widened the bounds */
  stallsMs: number;
  failure: Failure | undefined;
}

/** First wrong response, with its context. */
export interface Failure {
  sentence: string;
  /** number of steps begun */
  stepsBegun: number;
  details: string[];
}

const READERS = 3;
/** Time after the last fault: its bound, and time to detect stale responses. */
const QUIET_MS = 6_500;
const LAST_CHANGE_MS = 2_000;
const CONVERGE_MS = 60_000;
const DEADLINE_MS = 400_000;
/** Log lines of each instance in the context of a failure. */
const LINES_SHOWN = 40;

/** Runs these steps on a new system; `seed` determines everything beside the steps. */
export async function runEpisode(steps: Step[], seed: number, log: (line: string) => void): Promise<Outcome> {
  const episode = new Episode(log);
  try {
    await episode.run(steps, seed);
  } finally {
    await episode.stop();
  }
  return episode.outcome;
}

class Episode {
  readonly outcome: Outcome = {
    ...{ answers: 0, rejected: 0, unanswered: 0, unjudged: 0 },
    stallsMs: 0,
    failure: undefined,
  };
  readonly #logLine: (line: string) => void;
  readonly #ending = new AbortController();
  readonly #readers: Reader[] = [];
  readonly #reading: Promise<void>[] = [];
  readonly #log: string[] = [];
  readonly #beganMs = performance.now();
  readonly #answerChecker = new AnswerChecker(
    (sentence, details) => this.#fail(sentence, details),
    (served, beforeMs) => this.#stalls?.isProbing(served, beforeMs) ?? false,
    (atMs) => this.#stalls?.isOverloadedAt(atMs) ?? false,
    this.#beganMs,
  );
  #stepsBegun = 0;
  #system: System | undefined;
  #stalls: Stalls | undefined;

  constructor(log: (line: string) => void) {
    this.#logLine = log;
  }

  async run(steps: Step[], seed: number): Promise<void> {
    const system = await System.start(steps, seed, this.#logLine);
    this.#system = system;
    this.#stalls = new Stalls(system);
    const startReaders = (served: Served) => {
      for (let i = 0; i < READERS; i++) this.#read(system, served, new Draw(seed, this.#readers.length));
    };
    for (const served of system.served) startReaders(served);
    const { port } = system.served[0]!.instance;
    const warming = new Reader(port, system.keys, new Draw(seed, 0), () => {});
    for (const request of OTHERS) await warming.send(request, system.keys.full);
    warming.close();
    await sleep(1_500);
    const faults = new Faults(system);
    const background: Promise<void>[] = [];
    const deadline = setTimeout(() => this.#fail('the episode timed out'), DEADLINE_MS);
    for (const [i, step] of steps.entries()) {
      if (this.#ending.signal.aborted) break;
      this.#stepsBegun = i + 1;
      if (step.do === 'pause') {
        await this.#sleep(step.ms);
        continue;
      }
      this.#note(JSON.stringify(step));
      const doing = this.#do(system, faults, step).then(async () => {
        if (step.do === 'fault') this.#note(`over: ${step.fault}`);
        for (const served of system.served.slice(this.#readers.length / READERS)) startReaders(served);
      });
      background.push(doing.catch((error: Error) => this.#crash(step, error)));
      // writers wait for the end of faults, the steps do not
      if (step.do !== 'fault') await Promise.race([doing.catch(() => {}), this.#sleep(300)]);
    }
    await Promise.race([Promise.all(background), this.#ended()]);
    await this.#settle(system);
    clearTimeout(deadline);
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    this.#answerChecker.stop();
    this.outcome.answers = this.#answerChecker.answers;
    this.outcome.rejected = this.#answerChecker.rejected;
    this.outcome.unjudged = this.#answerChecker.unjudged;
    this.#stalls?.stop();
    this.outcome.stallsMs = this.#stalls?.totalMs ?? 0;
    for (const reader of this.#readers) reader.close();
    await Promise.all(this.#reading);
    this.outcome.unanswered = this.#readers.reduce((sum, { unanswered }) => sum + unanswered, 0);
    await closeAll().catch((error: Error) => this.#logLine(`  ${error.message}`));
  }

  /** Checks after the last fault that nothing stays stale and that a last change is visible everywhere. */
  async #settle(system: System): Promise<void> {
    await this.#sleep(QUIET_MS);
    await this.#requestAll(system);
    for (const database of system.databases) {
      if (this.#ending.signal.aborted) return;
      const all = { ...UPDATE, write: 'update all', hotels: [], token: 0 } as const;
      await write(database, all, `last of ${database.name} `);
    }
    await this.#sleep(LAST_CHANGE_MS);
    await this.#requestAll(system);
    const endedMs = performance.now();
    while (this.#answerChecker.isBehind(endedMs) && !this.#ending.signal.aborted) await this.#sleep(50);
  }

  /** Sends every request from every reader and expects a response. */
  async #requestAll(system: System): Promise<void> {
    const untilMs = performance.now() + CONVERGE_MS;
    for (const [i, reader] of this.#readers.entries()) {
      for (const request of EVERYTHING) {
        while (!this.#ending.signal.aborted) {
          const exchange = await reader.send(request, system.keys.full);
          if (exchange && exchange.status !== 503) break;
          if (performance.now() > untilMs) {
            this.#fail(`reader ${i} receives no response to ${JSON.stringify(request)} without any fault`);
          }
          await sleep(100);
        }
      }
    }
  }

  async #do(system: System, faults: Faults, step: Step): Promise<void> {
    if (step.do === 'write') await write(system.databases[0]!, step);
    else if (step.do === 'key') await system.keys.change(system.databases[0]!, step, system.hasClocks);
    else if (step.do === 'fault') await faults.run(step);
    for (const database of system.databases)
      if (database.isUncertain && database.isOpen) await database.resync();
  }

  #read(system: System, served: Served, draw: Draw): void {
    const reader = new Reader(served.instance.port, system.keys, draw, (exchange) => {
      this.#answerChecker.receive(served, exchange);
    });
    this.#readers.push(reader);
    this.#reading.push(reader.run(this.#ending.signal));
  }

  #crash(step: Step, error: Error): void {
    const what =
      error instanceof WriterRejected ? 'a writer was rejected' : 'the harness failed to run its step';
    this.#fail(
      `${what}: ${JSON.stringify(step)}: ${error instanceof WriterRejected ? error.message : error.stack}`,
    );
  }

  #fail(sentence: string, details: string[] = []): void {
    if (this.#ending.signal.aborted) return;
    const notable = this.#system?.served.flatMap(({ instance }) =>
      instance.lines
        .slice(-LINES_SHOWN)
        .map(({ atMs, line }) => `  ${seconds(atMs - this.#beganMs)} ${line}`),
    );
    this.outcome.failure = {
      sentence,
      stepsBegun: this.#stepsBegun,
      details: [...details, 'steps, in s since the start:', ...this.#log, 'logs:', ...(notable ?? [])],
    };
    this.#ending.abort();
  }

  #note(line: string): void {
    this.#log.push(`  ${seconds(performance.now() - this.#beganMs)} ${line}`);
  }

  async #sleep(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#ending.signal }).catch(() => {});
  }

  async #ended(): Promise<void> {
    while (!this.#ending.signal.aborted) await this.#sleep(1_000);
  }
}
