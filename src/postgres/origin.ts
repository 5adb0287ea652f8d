import { isQueueFull, Unavailable } from '../errors.ts';
import { clearTimer, every, monotonicMs, type Timer } from '../lib/clock.ts';
import type { Postgres } from './client.ts';
import { type Applied, type Labelled, type Query, readLabelled } from './label.ts';

/** Interval of the checks of each replica, whether or not it is read. */
const COMPARE_EVERY_MS = 1_000;
/** Time for which a replica that was behind or failed is left alone. Changes are applied every 25 ms at most. */
const PAUSE_MS = 25;

/** Result of a read for which a replica was considered; all but `answered` went to the primary. */
type ReplicaRead = 'answered' | 'behind' | 'failed' | 'left_alone';

interface OriginOptions {
  primary: Postgres;
  replicas: Postgres[];
  /** history and position up to which this process has applied the log; undefined while it knows neither */
  applied: () => Applied | undefined;
  /** false: changes older than a second may be unknown here, so that a replica cannot be compared and is left alone */
  mayCompareReplicas: () => boolean;
  /** called when the primary is behind what was applied: the database has gone back, or another has taken its place */
  onBehind: () => void;
  count: (outcome: ReplicaRead) => void;
}

/**
 * PostgreSQL as the origin of cached values: the primary, and replicas that are read in turn. Each read returns the label of
 * its rows. The primary answers if a replica is behind, fails or is paused.
 */
export class Origin {
  readonly #options: OriginOptions;
  readonly #replicas: Replica[];
  readonly #checking: Timer | undefined;
  #nextIndex = 0;

  constructor(options: OriginOptions) {
    this.#options = options;
    this.#replicas = options.replicas.map((postgres) => new Replica(postgres, options.applied));
    if (this.#replicas.length === 0) return;
    this.#checking = every(() => {
      if (this.#mayReadReplicas) for (const replica of this.#replicas) void replica.check();
    }, COMPARE_EVERY_MS);
  }

  /** Returns the number of queries that wait for a connection to any server. */
  get waiting(): number {
    return this.#replicas.reduce(
      (sum, { postgres }) => sum + postgres.waiting,
      this.#options.primary.waiting,
    );
  }

  /** Returns the time in ms for which each replica has lacked an applied change, in the order of the configuration. */
  get lagsMs(): number[] {
    return this.#replicas.map(({ lagMs }) => lagMs);
  }

  /**
   * Returns the rows of one query and their label, which is not below what was applied before the call. The columns must
   * not be named `label`, `history`, `server` or `found`. Throws what `Postgres` throws, and `Unavailable` if the primary is behind.
   */
  async read<Row>(...query: Query): Promise<Labelled<Row>> {
    if (this.#replicas.length === 0) return this.readPrimary(...query);
    const replica = this.#mayReadReplicas ? this.#next() : undefined;
    let outcome: ReplicaRead = 'left_alone';
    try {
      const read = await replica?.read<Row>(...query);
      if (read) {
        this.#options.count('answered');
        return read;
      }
      if (replica) outcome = 'behind';
    } catch {
      outcome = 'failed';
    }
    this.#options.count(outcome);
    return this.readPrimary(...query);
  }

  /** Reads like `read`, from the primary alone. */
  async readPrimary<Row>(...query: Query): Promise<Labelled<Row>> {
    const { primary, applied, onBehind } = this.#options;
    const read = await readLabelled<Row>(primary, applied, ...query);
    if (read) return read;
    onBehind();
    throw new Unavailable('PostgreSQL is behind the applied log', { rejection: 'postgres_unavailable' });
  }

  /** Returns the rows of `read` alone. */
  async rows<Row>(...query: Query): Promise<Row[]> {
    return (await this.read<Row>(...query)).rows;
  }

  /** Opens the connections to the replicas, or stops waiting after `timeoutMs`. */
  async replicasConnected(timeoutMs: number): Promise<void> {
    await Promise.all(this.#replicas.map(({ postgres }) => postgres.connected(timeoutMs)));
  }

  /** Replaces the connections to the replicas. */
  reconnectReplicas(finishWithinS: number): void {
    for (const { postgres } of this.#replicas) postgres.reconnect(finishWithinS);
  }

  /** Closes the connections to the replicas. */
  async closeReplicas(): Promise<void> {
    clearTimer(this.#checking);
    await Promise.all(this.#replicas.map(({ postgres }) => postgres.close()));
  }

  get #mayReadReplicas(): boolean {
    return this.#options.applied() !== undefined && this.#options.mayCompareReplicas();
  }

  #next(): Replica | undefined {
    for (let i = 0; i < this.#replicas.length; i++) {
      const replica = this.#replicas[this.#nextIndex++ % this.#replicas.length]!;
      if (replica.mayBeRead()) return replica;
    }
    return undefined;
  }
}

/** A replica. Each read compares its own label, so a balancer or pooler in front of several servers is allowed. */
class Replica {
  readonly postgres: Postgres;
  readonly #applied: () => Applied | undefined;
  /** last time at which it held every applied change */
  #reachedAtMs = monotonicMs();
  /** end of a pause; undefined: it held every applied change when it was read last */
  #tryAtMs: number | undefined;

  constructor(postgres: Postgres, applied: () => Applied | undefined) {
    this.postgres = postgres;
    this.#applied = applied;
  }

  /** Returns the time in ms for which it has lacked an applied change; 0 if it lacks none. */
  get lagMs(): number {
    return this.#tryAtMs === undefined ? 0 : monotonicMs() - this.#reachedAtMs;
  }

  /** Returns false during a pause. After each pause one caller is sent to the replica as a probe. */
  mayBeRead(): boolean {
    if (this.postgres.breakerOpen) return false;
    if (this.#tryAtMs === undefined) return true;
    if (monotonicMs() < this.#tryAtMs) return false;
    this.#pause();
    return true;
  }

  /** Returns the rows of one query, or undefined if the replica is behind. Throws what `Postgres` throws. */
  async read<Row>(...query: Query): Promise<Labelled<Row> | undefined> {
    try {
      const read = await readLabelled<Row>(this.postgres, this.#applied, ...query);
      if (read) {
        this.#tryAtMs = undefined;
        this.#reachedAtMs = monotonicMs();
      } else this.#pause();
      return read;
    } catch (error) {
      // a full queue says nothing about the replica
      if (!isQueueFull(error)) this.#pause();
      throw error;
    }
  }

  /** Compares its label once, whether or not requests read from it. A failure is a pause. */
  async check(): Promise<void> {
    if (this.postgres.breakerOpen) this.#pause();
    else await this.read('select 1', []).catch(() => {});
  }

  #pause(): void {
    this.#tryAtMs = monotonicMs() + PAUSE_MS;
  }
}
