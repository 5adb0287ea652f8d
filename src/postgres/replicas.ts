import type { Lane, Postgres } from './client.ts';
import type { FeedPosition, Replica } from './replica.ts';

/** How often each replica is looked at, whether or not it is read. */
const LOOK_EVERY_MS = 1_000;

/** Where a read that a replica could have answered went; all but `answered` went to the primary. */
export type ReplicaRead = 'answered' | 'behind' | 'failed' | 'left_alone';

/**
 * Reads from replicas in turn, and from the primary what they cannot answer: while the change feed is silent, where
 * the one whose turn it is lacks what was heard of, fails, or is left alone for that.
 */
export class Replicas {
  readonly #primary: Postgres;
  readonly #replicas: Replica[];
  readonly #position: () => FeedPosition | undefined;
  readonly #count: (outcome: ReplicaRead) => void;
  readonly #looking: NodeJS.Timeout;
  #nextIndex = 0;

  /** `told`: what was heard last, undefined while that is not known. */
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
    this.#looking = setInterval(() => {
      const lately = announced();
      if (lately) for (const replica of replicas) void replica.look(lately);
    }, LOOK_EVERY_MS);
  }

  /** Queries that wait for a connection, wherever. */
  get waiting(): number {
    return this.#replicas.reduce((sum, { waiting }) => sum + waiting, this.#primary.waiting);
  }

  /** For how long each replica has lacked something that was told, in the order of the configuration. */
  get lagsMs(): number[] {
    return this.#replicas.map(({ lagMs }) => lagMs);
  }

  /** The rows of one query, which holds all that was heard of before. Throws what `Postgres` does. */
  async rows<Row>(text: string, parameters: unknown[], owner?: string, lane?: Lane): Promise<Row[]> {
    const outcome = await this.#ask<Row>(text, parameters, owner, lane);
    if (typeof outcome !== 'string') {
      this.#count('answered');
      return outcome;
    }
    this.#count(outcome);
    return this.#primary.rows<Row>(text, parameters, owner, lane);
  }

  async #ask<Row>(
    text: string,
    parameters: unknown[],
    owner: string | undefined,
    lane: Lane | undefined,
  ): Promise<Row[] | ReplicaRead> {
    const announced = this.#position();
    const replica = announced && this.#next();
    if (!replica) return 'left_alone';
    try {
      return (await replica.rows<Row>(text, parameters, announced, owner, lane)) ?? 'behind';
    } catch {
      return 'failed';
    }
  }

  /** Opens their connections, or gives up after `timeoutMs`. */
  async connected(timeoutMs: number): Promise<void> {
    await Promise.all(this.#replicas.map((replica) => replica.connected(timeoutMs)));
  }

  reconnect(finishWithinS: number): void {
    for (const replica of this.#replicas) replica.reconnect(finishWithinS);
  }

  async close(): Promise<void> {
    clearInterval(this.#looking);
    await Promise.all(this.#replicas.map((replica) => replica.close()));
  }

  #next(): Replica | undefined {
    for (let i = 0; i < this.#replicas.length; i++) {
      const replica = this.#replicas[this.#nextIndex++ % this.#replicas.length]!;
      if (replica.mayBeAsked()) return replica;
    }
    return undefined;
  }
}
