import type { Lane, Postgres } from './client.ts';
import type { FeedPosition, Replica } from './replica.ts';

/** Interval of the checks of each replica, whether or not it is read. */
const CHECK_EVERY_MS = 1_000;

/** Result of a read for which a replica was considered; all but `answered` went to the primary. */
type ReplicaRead = 'answered' | 'behind' | 'failed' | 'left_alone';

/**
 * Reads from replicas in turn. The primary answers while the change feed is down, and if the replica is behind, fails
 * or is paused.
 */
export class Replicas {
  readonly #primary: Postgres;
  readonly #replicas: Replica[];
  readonly #position: () => FeedPosition | undefined;
  readonly #count: (outcome: ReplicaRead) => void;
  readonly #checking: NodeJS.Timeout;
  #nextIndex = 0;

  /** `announced`: returns the last received position, undefined while it is unknown. */
  constructor(
    primary: Postgres,
    replicas: Replica[],
    announced: () => FeedPosition | undefined,
    count: (outcome: ReplicaRead) => void,
  ) {
    this.#primary = primary;
    this.#replicas = replicas;
    this.#position = announced;
    this.#count = count;
    this.#checking = setInterval(() => {
      const lately = announced();
      if (lately) for (const replica of replicas) void replica.check(lately);
    }, CHECK_EVERY_MS);
  }

  /** Returns the number of queries that wait for a connection to any server. */
  get waiting(): number {
    return this.#replicas.reduce((sum, { postgres }) => sum + postgres.waiting, this.#primary.waiting);
  }

  /**
   * Returns the time in ms for which each replica has lacked an announced change, in the order of the configuration.
   */
  get lagsMs(): number[] {
    return this.#replicas.map(({ lagMs }) => lagMs);
  }

  /** Returns the rows of one query, which include every change received before it. Throws what `Postgres` throws. */
  async rows<Row>(text: string, parameters: unknown[], owner?: string, lane?: Lane): Promise<Row[]> {
    const announced = this.#position();
    const replica = announced && this.#next();
    let outcome: ReplicaRead = 'left_alone';
    try {
      const found = await replica?.rows<Row>(text, parameters, announced!, owner, lane);
      if (found) {
        this.#count('answered');
        return found;
      }
      if (replica) outcome = 'behind';
    } catch {
      outcome = 'failed';
    }
    this.#count(outcome);
    return this.#primary.rows<Row>(text, parameters, owner, lane);
  }

  /** Opens the connections, or stops waiting after `timeoutMs`. */
  async connected(timeoutMs: number): Promise<void> {
    await Promise.all(this.#replicas.map(({ postgres }) => postgres.connected(timeoutMs)));
  }

  reconnect(finishWithinS: number): void {
    for (const { postgres } of this.#replicas) postgres.reconnect(finishWithinS);
  }

  async close(): Promise<void> {
    clearInterval(this.#checking);
    await Promise.all(this.#replicas.map(({ postgres }) => postgres.close()));
  }

  #next(): Replica | undefined {
    for (let i = 0; i < this.#replicas.length; i++) {
      const replica = this.#replicas[this.#nextIndex++ % this.#replicas.length]!;
      if (replica.mayBeRead()) return replica;
    }
    return undefined;
  }
}
