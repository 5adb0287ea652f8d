import { isQueueFull, Unavailable } from '../errors.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Postgres } from './client.ts';
import { type Applied, type Labelled, type Query, readLabelled } from './label.ts';

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

interface Replica {
  postgres: Postgres;
  /** end of its pause, from which one read is its probe; undefined: it was not behind when it was read last */
  tryAtMs?: number | undefined;
  /** times of the first and the last of the last reads that all found it behind or failed */
  behind?: { firstMs: number; lastMs: number } | undefined;
}

/**
 * PostgreSQL as the origin of cached values: the primary, and replicas that are read in turn. Each read returns the label of
 * its rows, so an address of a replica may be that of a balancer or pooler in front of several. The primary answers if a
 * replica is behind, fails or is paused.
 */
export class Origin {
  readonly #options: OriginOptions;
  readonly #replicas: Replica[];
  #nextIndex = 0;

  constructor(options: OriginOptions) {
    this.#options = options;
    this.#replicas = options.replicas.map((postgres) => ({ postgres }));
  }

  /** Returns for each replica the time over which all reads have found it behind or failed. */
  get lagsMs(): number[] {
    return this.#replicas.map(({ behind }) => (behind ? behind.lastMs - behind.firstMs : 0));
  }

  /** Returns the number of queries that wait for a connection to any server. */
  get waiting(): number {
    return this.#replicas.reduce(
      (sum, { postgres }) => sum + postgres.waiting,
      this.#options.primary.waiting,
    );
  }

  /**
   * Returns the rows of one query and their label, which is not below what was applied before the call. The columns must
   * not be named `label`, `history`, `server` or `found`. Throws what `Postgres` throws, and `Unavailable` if the primary is behind.
   */
  async read<Row>(...query: Query): Promise<Labelled<Row>> {
    if (this.#replicas.length === 0) return this.readPrimary(...query);
    const replica = this.#next();
    if (!replica) {
      this.#options.count('left_alone');
      return this.readPrimary(...query);
    }
    try {
      const read = await readLabelled<Row>(replica.postgres, this.#options.applied, ...query);
      this.#options.count(read ? 'answered' : 'behind');
      if (!read) leaveAlone(replica);
      else {
        Object.assign(replica, { tryAtMs: undefined, behind: undefined });
        return read;
      }
    } catch (error) {
      this.#options.count('failed');
      // a full queue says nothing about the replica
      if (!isQueueFull(error)) leaveAlone(replica);
    }
    return this.readPrimary(...query);
  }

  /** Reads like `read`, from the primary alone. */
  async readPrimary<Row>(...query: Query): Promise<Labelled<Row>> {
    const { primary, applied, onBehind } = this.#options;
    const read = await readLabelled<Row>(primary, applied, ...query);
    if (read) return read;
    onBehind();
    throw new Unavailable('PostgreSQL is behind the applied log', 'postgres_unavailable');
  }

  /** Returns the rows of `read` alone. */
  async rows<Row>(...query: Query): Promise<Row[]> {
    return (await this.read<Row>(...query)).rows;
  }

  /** Returns the replica to read, if one may be read now. */
  #next(): Replica | undefined {
    const { applied, mayCompareReplicas } = this.#options;
    if (applied() === undefined || !mayCompareReplicas()) return undefined;
    const nowMs = monotonicMs();
    for (let i = 0; i < this.#replicas.length; i++) {
      const replica = this.#replicas[this.#nextIndex++ % this.#replicas.length]!;
      if (replica.postgres.breakerOpen || nowMs < (replica.tryAtMs ?? 0)) continue;
      if (replica.tryAtMs !== undefined) replica.tryAtMs = nowMs + PAUSE_MS;
      return replica;
    }
    return undefined;
  }
}

function leaveAlone(replica: Replica): void {
  const nowMs = monotonicMs();
  replica.tryAtMs = nowMs + PAUSE_MS;
  replica.behind = { firstMs: replica.behind?.firstMs ?? nowMs, lastMs: nowMs };
}
