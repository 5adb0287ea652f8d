import slotOf from 'cluster-key-slot';
import type { Cluster } from 'ioredis';
import type { BreakerCall } from '../breaker-call.ts';
import type { Master, Masters } from './masters.ts';

/** Maximum number of concurrent commands of one call; more would make each wait beyond its deadline. */
const COMMANDS_AT_ONCE = 1_000;

type Command = [key: string, name: string, ...args: (string | number | Buffer)[]];

/** Sends commands for many keys at once, each to the node that has its key. */
export class Commands {
  readonly #cluster: Cluster;
  readonly #masters: Masters;
  readonly #call: BreakerCall;

  constructor(cluster: Cluster, masters: Masters, call: BreakerCall) {
    this.#cluster = cluster;
    this.#masters = masters;
    this.#call = call;
  }

  /** Sends commands, those of one node together. Returns the replies; undefined if not all were executed. */
  async send(commands: Command[]): Promise<unknown[] | undefined> {
    const all: unknown[] = [];
    for (let start = 0; start < commands.length; start += COMMANDS_AT_ONCE) {
      const part = commands.slice(start, start + COMMANDS_AT_ONCE);
      const done = await this.#masters.each(
        part.map(([key]) => slotOf(key)),
        async (master, places) => {
          const ofMaster = places.map((i) => part[i]!);
          const replies = await this.#call.inTime(this.#sendTo(master, ofMaster));
          for (const [at, i] of places.entries()) all[start + i] = replies[at];
        },
      );
      if (done.includes(false)) return undefined;
    }
    return all;
  }

  async #sendTo(master: Master, commands: Command[]): Promise<unknown[]> {
    const pipeline = this.#masters
      .clientOf(master)
      .pipeline(commands.map(([, name, ...args]) => [name, ...args]));
    const results = (await pipeline.exec()) ?? [];
    return Promise.all(
      results.map(([error, reply], i) => (error ? this.#sendAgain(commands[i]!, error) : reply)),
    );
  }

  /** Sends a command alone after a redirection. */
  async #sendAgain([, name, ...args]: Command, error: Error): Promise<unknown> {
    if (!/^(MOVED|ASK|TRYAGAIN) /.test(error.message)) throw error;
    return this.#cluster.call(name, ...args);
  }
}
