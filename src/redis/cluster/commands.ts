import { hash } from 'node:crypto';
import type { Cluster } from 'ioredis';
import type { BreakerCall } from '../breaker-call.ts';
import { STORE_NEWER } from '../scripts.ts';
import type { Master, Masters } from './masters.ts';

/** How the script is named; who does not know it yet is sent it whole. */
export const STORE_NEWER_SHA1 = hash('sha1', STORE_NEWER);
/** Commands of one call under way at once; more would make each wait for the others beyond its deadline. */
const COMMANDS_AT_ONCE = 1_000;

/** One key, and what is done to it. */
export type Command = [key: string, name: string, ...args: (string | number | Buffer)[]];

/** Commands for many keys at once, each sent to the node that has its key. */
export class Commands {
  readonly #cluster: Cluster;
  readonly #masters: Masters;
  readonly #call: BreakerCall;

  constructor(cluster: Cluster, masters: Masters, call: BreakerCall) {
    this.#cluster = cluster;
    this.#masters = masters;
    this.#call = call;
  }

  /** Sends commands, all those for one node at once. Their answers; undefined when not all were done. */
  async send(commands: Command[]): Promise<unknown[] | undefined> {
    const answers: unknown[] = [];
    for (let start = 0; start < commands.length; start += COMMANDS_AT_ONCE) {
      const part = commands.slice(start, start + COMMANDS_AT_ONCE);
      const done = await this.#masters.each(
        part.map(([key]) => key),
        (master, places) =>
          this.#call.inTime(
            this.#sendTo(
              master,
              places.map((i) => part[i]!),
              (i, answer) => {
                answers[start + places[i]!] = answer;
              },
            ),
          ),
      );
      if (done.includes(false)) return undefined;
    }
    return answers;
  }

  async #sendTo(
    master: Master,
    commands: Command[],
    answered: (i: number, answer: unknown) => void,
  ): Promise<void> {
    const pipeline = this.#masters
      .clientOf(master)
      .pipeline(commands.map(([, name, ...args]) => [name, ...args]));
    const answers = (await pipeline.exec()) ?? [];
    await Promise.all(
      answers.map(async ([error, answer], i) => {
        answered(i, error ? await this.#sendAgain(commands[i]!, error) : answer);
      }),
    );
  }

  /** Sends by itself what a node did not do because another is to do it, or because it did not know the script yet. */
  async #sendAgain([, name, ...args]: Command, error: Error): Promise<unknown> {
    if (isWithoutScript(error)) return this.#sendScript(args);
    if (!/^(MOVED|ASK|TRYAGAIN) /.test(error.message)) throw error;
    try {
      return await this.#cluster.call(name, ...args);
    } catch (again) {
      if (isWithoutScript(again as Error)) return this.#sendScript(args);
      throw again;
    }
  }

  /** `args`: those of the call by name. */
  #sendScript(args: (string | number | Buffer)[]): Promise<unknown> {
    return this.#cluster.call('eval', STORE_NEWER, ...args.slice(1));
  }
}

function isWithoutScript({ message }: Error): boolean {
  return message.startsWith('NOSCRIPT');
}
