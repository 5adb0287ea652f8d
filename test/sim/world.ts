import { crc32 } from 'node:zlib';
import { type Clock, type Timer, useClock, watchClocks } from '../../src/lib/clock.ts';
import { Random } from './random.ts';

/** Kinds of events of a process: what its event loop runs in separate phases. */
type Kind = 'timer' | 'iteration' | 'io';

interface Event {
  atMs: number;
  number: number;
  /** undefined: the world itself */
  process: Process | undefined;
  kind: Kind;
  /** undefined: cancelled */
  run: (() => void) | undefined;
}

/** Delay of a callback at the end of an iteration of an event loop. */
const ITERATION_MS = 0.01;
/** Events that one iteration of the real event loop runs. */
const EVENTS_AT_ONCE = 200;
/** More events within a second are a loop: something is repeated without a pause. */
const MAX_EVENTS_OF_SECOND = 20_000;
const HOUR_MS = 3_600_000;
/** Drift of a clock that nothing corrects: twice what NTP assumes at most. */
const MAX_DRIFT = 1e-3;

/** Returns the value of a key of a map, which is made if there is none. */
export function entryOf<Key, Value>(
  map: { get(key: Key): Value | undefined; set(key: Key, value: Value): unknown },
  key: Key,
  make: () => Value,
): Value {
  const value = map.get(key) ?? make();
  map.set(key, value);
  return value;
}

/** A machine: its clocks, on which all its processes agree. */
export class Host {
  readonly name: string;
  /** what its wall clock was set ahead of the true time */
  wallAheadMs = 0;
  /** time for which it has slept: its monotonic clock stood still */
  sleptMs = 0;
  isAsleep = false;
  readonly processes: Process[] = [];
  /** how fast its clocks run: its oscillator drifts */
  readonly rate: number;
  readonly #world: World;
  readonly #bootedMs: number;

  constructor(world: World, name: string) {
    this.#world = world;
    this.name = name;
    this.#bootedMs = world.random.between(1, 100) * HOUR_MS;
    this.rate = 1 + world.random.between(-MAX_DRIFT, MAX_DRIFT);
  }

  monotonicMs(): number {
    return this.#bootedMs + (this.#world.nowMs - this.sleptMs) * this.rate;
  }

  uptimeMs(): number {
    return this.monotonicMs() + this.sleptMs * this.rate;
  }

  wallMs(): number {
    return Math.floor(this.#world.beganWallMs + this.#world.nowMs * this.rate + this.wallAheadMs);
  }
}

/** A simulated process: an event loop that may stop, continue or die. */
export class Process implements Clock {
  readonly name: string;
  readonly host: Host;
  readonly watch: Clock['watch'] = { wallAheadMs: 0, sleptMs: 0, dueAtMs: 0, onStep: [], onTick: [] };
  readonly pid: number;
  isDead = false;
  /** whether it stands still at present: by a signal, with its container, or because it does something endless */
  isStopped = false;
  /** time for which it has stood still so far */
  stoodMs = 0;
  #haltedAtMs = 0;
  /** called when something has ended it */
  onKilled: (() => void) | undefined;
  /** a primary process: starts a worker */
  fork: (() => unknown) | undefined;
  readonly #world: World;
  readonly #random: Random;
  #iterationAtMs = 0;
  /** events that came while it was stopped */
  #held: Event[] = [];

  constructor(world: World, host: Host, name: string) {
    this.#world = world;
    this.host = host;
    this.name = name;
    this.pid = ++world.processes;
    this.#random = new Random(`${world.seed} ${name} ${this.pid}`);
    host.processes.push(this);
  }

  monotonicMs(): number {
    return this.host.monotonicMs();
  }

  wallMs(): number {
    return this.host.wallMs();
  }

  uptimeMs(): number {
    return this.host.uptimeMs();
  }

  random(): number {
    return this.#random.next();
  }

  setTimer(callback: () => void, delayMs: number): Timer {
    // as in Node: whole milliseconds, at least one; a little late
    const waitMs = Math.max(1, Math.trunc(delayMs)) / this.host.rate + this.#random.between(0, 0.4);
    const event = this.#world.schedule(this.#world.nowMs + waitMs, this, 'timer', callback);
    const timer = { event, unref: () => timer };
    return timer;
  }

  every(callback: () => void, intervalMs: number): Timer {
    const timer = { event: undefined as Event | undefined, unref: () => timer };
    const next = () => {
      const atMs = this.#world.nowMs + intervalMs / this.host.rate;
      timer.event = this.#world.schedule(atMs, this, 'timer', () => {
        next();
        callback();
      });
    };
    next();
    return timer;
  }

  clearTimer(timer: Timer | undefined): void {
    const event = (timer as { event?: Event } | undefined)?.event;
    if (event) event.run = undefined;
  }

  onIteration(callback: () => void): void {
    this.#iterationAtMs = Math.max(this.#iterationAtMs, this.#world.nowMs + ITERATION_MS);
    this.#world.schedule(this.#iterationAtMs, this, 'iteration', callback);
  }

  /** Lets something arrive at its event loop. */
  receive(run: () => void, delayMs = 0): void {
    this.#world.schedule(this.#world.nowMs + delayMs, this, 'io', run);
  }

  hold(event: Event): void {
    this.#held.push(event);
  }

  /** Lets it stand still until `goOn`. Returns false if it does already. */
  halt(): boolean {
    if (this.isStopped || this.isDead) return false;
    this.isStopped = true;
    this.#haltedAtMs = this.#world.nowMs;
    return true;
  }

  /** Goes on with what is due: first the timers, or first what has arrived. */
  goOn(): void {
    this.isStopped = false;
    this.stoodMs += this.#world.nowMs - this.#haltedAtMs;
    const order: Kind[] = ['timer', 'iteration', 'io'];
    if (!this.#random.chance(0.5)) order.reverse();
    const held = this.#held;
    this.#held = [];
    // nothing takes no time
    let atMs = this.#world.nowMs + 0.001;
    for (const kind of order)
      for (const event of held)
        if (event.kind === kind && event.run) {
          this.#world.reschedule(event, atMs);
          atMs += 0.001;
        }
  }

  /** Ends it at once, as SIGKILL does. */
  kill(): void {
    if (this.isDead) return;
    this.isDead = true;
    this.#held = [];
    this.host.processes.splice(this.host.processes.indexOf(this), 1);
    this.onKilled?.();
  }
}

/** Virtual time: events in order, each run by its process, with everything random drawn from one seed. */
export class World {
  readonly seed: string;
  readonly random: Random;
  nowMs = 0;
  processes = 0;
  /** true time of the wall clocks (epoch ms) at the beginning */
  readonly beganWallMs: number;
  events = 0;
  current: Process | undefined;
  /** checksum of everything that happened */
  digest = 0;
  readonly lines: string[] | undefined;
  readonly #hosts = new Map<string, Host>();
  /** the next event is the last one */
  #queue: Event[] = [];
  #number = 0;
  #fault: unknown;
  /** a moment of at most a second ago, and the events up to it */
  #secondAtMs = 0;
  #eventsBefore = 0;

  constructor(seed: string, beganWallMs: number, isTraced: boolean) {
    this.seed = seed;
    this.random = new Random(`${seed} world`);
    this.beganWallMs = beganWallMs;
    this.lines = isTraced ? [] : undefined;
  }

  get trueWallMs(): number {
    return this.beganWallMs + this.nowMs;
  }

  randomOf(name: string): Random {
    return new Random(`${this.seed} ${name}`);
  }

  host(name: string): Host {
    return entryOf(this.#hosts, name, () => new Host(this, name));
  }

  /** Begins a process on a host; `main` runs in it once it has loaded. */
  spawn(host: Host, name: string, main: () => void, loadsMs = 0): Process {
    const process = new Process(this, host, name);
    process.receive(() => {
      watchClocks();
      main();
    }, loadsMs);
    return process;
  }

  /** Records a line of the trace. */
  trace(line: string): void {
    const text = `${this.nowMs.toFixed(3)} ${line}`;
    this.digest = crc32(text, this.digest);
    this.lines?.push(text);
  }

  after(delayMs: number, run: () => void): void {
    this.schedule(this.nowMs + delayMs, undefined, 'io', run);
  }

  at(atMs: number, run: () => void): void {
    this.schedule(Math.max(this.nowMs, atMs), undefined, 'io', run);
  }

  schedule(atMs: number, process: Process | undefined, kind: Kind, run: () => void): Event {
    const event = { atMs, number: this.#number++, process, kind, run };
    this.#push(event);
    return event;
  }

  reschedule(event: Event, atMs: number): void {
    event.atMs = atMs;
    event.number = this.#number++;
    this.#push(event);
  }

  /** Ends the run with an error. */
  fail(error: unknown): void {
    this.#fault ??= error;
  }

  /** Runs everything up to a time. Promises settle between two events, in the process that ran the first. */
  run(untilMs: number, onProgress: () => void = () => {}): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let left = 0;
    const next = () => {
      if (this.#fault !== undefined) return reject(this.#fault);
      onProgress();
      left = EVENTS_AT_ONCE;
      for (let i = 0; i < EVENTS_AT_ONCE; i++) setImmediate(step);
    };
    const step = () => {
      left--;
      if (this.#fault === undefined) {
        const first = this.#queue.at(-1);
        if (!first || first.atMs > untilMs) {
          if (left === 0) {
            this.nowMs = untilMs;
            resolve();
          }
          return;
        }
        this.#runNext();
      }
      if (left === 0) next();
    };
    next();
    return promise;
  }

  #runNext() {
    const event = this.#queue.pop()!;
    const { process, run } = event;
    if (!run) return;
    this.nowMs = Math.max(this.nowMs, event.atMs);
    if (this.nowMs >= this.#secondAtMs + 1_000) {
      this.#secondAtMs = this.nowMs;
      this.#eventsBefore = this.events;
    } else if (this.events - this.#eventsBefore > MAX_EVENTS_OF_SECOND) {
      const since = `since ${this.#secondAtMs.toFixed(0)} ms`;
      this.fail(new Error(`seed ${this.seed}: over ${MAX_EVENTS_OF_SECOND} events ${since}`));
    }
    if (process?.isDead) return;
    if (process?.isStopped) return process.hold(event);
    this.events++;
    event.run = undefined;
    // stays set until the next event: what follows in promises belongs to the process
    this.current = process;
    useClock(process ?? NO_CLOCK);
    try {
      run();
    } catch (error) {
      this.fail(error);
    }
  }

  #push(event: Event): void {
    const { atMs, number } = event;
    const isLater = (other: Event) => atMs < other.atMs || (atMs === other.atMs && number < other.number);
    this.#queue.splice(this.#queue.findLastIndex(isLater) + 1, 0, event);
  }
}

const outside = (): never => {
  throw new Error('the clock is used outside of a simulated process');
};
/** Clock of the world between the events of processes: it must not be used. */
const NO_CLOCK: Clock = {
  monotonicMs: outside,
  wallMs: outside,
  uptimeMs: outside,
  random: outside,
  setTimer: outside,
  every: outside,
  clearTimer: () => {},
  onIteration: outside,
  watch: { wallAheadMs: 0, sleptMs: 0, dueAtMs: 0, onStep: [], onTick: [] },
};
