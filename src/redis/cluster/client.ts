import slotOf from 'cluster-key-slot';
import type { OnCall } from '../../lib/circuit-breaker.ts';
import { type Redis, waitUntilReady } from '../client.ts';
import type { ValuesReader } from '../reply-parser.ts';
import type { Login, RedisStore, TimedValue, WindowCount, WindowUse } from '../store.ts';
import { Masters } from './masters.ts';
import { MgetKeys } from './mget-keys.ts';

/**
 * Client of a Redis Cluster. Keys have no hash tags, so a batch spreads over all nodes. Commands go to each node at
 * once, in one round trip, and an unavailable node affects its own keys only. A key whose slot is moving is a miss.
 */
export class RedisCluster implements RedisStore {
  readonly #masters: Masters;

  /**
   * Connects to the cluster of which `urls` are some nodes; user, password and TLS are those of the first.
   * `onBreaker` is called when the first node's breaker opens and when the last one closes.
   */
  constructor(
    urls: string[],
    timeoutMs: number,
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall = () => {},
  ) {
    this.#masters = new Masters(urls, timeoutMs, onBreaker, onCall);
  }

  connected(timeoutMs: number): Promise<boolean> {
    return waitUntilReady(() => this.#masters.ready, timeoutMs);
  }

  async read(key: string): Promise<Buffer | null | undefined> {
    const [value] = await this.#each([slotOf(key)], (master) => master.read(key));
    return value;
  }

  /** Reads the values from all nodes, and gives them to the reader. */
  async sendMget(
    command: Buffer,
    keys: number,
    reader: ValuesReader,
    onSent?: () => void,
  ): Promise<true | undefined> {
    const keysOfCommand = new MgetKeys(command, keys);
    const parts = await this.#each(keysOfCommand.slots, async (master, at) => ({
      values: await master.readEach(keysOfCommand.commandsOf(at), at.length),
      at,
    }));
    onSent?.();
    const read = parts.flatMap(({ values, at }) => (values ? [{ values, at }] : []));
    if (read.length === 0) return undefined;
    reader.use(read);
    reader.complete();
    return true;
  }

  async setMany(values: TimedValue[]): Promise<void> {
    const slots = values.map(([key]) => slotOf(key));
    await this.#each(slots, (master, at) => master.setMany(at.map((i) => values[i]!)));
  }

  async countWindow(key: string, use: WindowUse): Promise<WindowCount | undefined> {
    const [count] = await this.#each([slotOf(key)], (master) => master.countWindow(key, use));
    return count;
  }

  useLogin(login: Login): void {
    this.#masters.useLogin(login);
  }

  close(): void {
    this.#masters.close();
  }

  /** Does work at each master of these slots concurrently, with the indexes of its slots. */
  #each<T>(slots: Iterable<number>, work: (master: Redis, at: number[]) => Promise<T>): Promise<T[]> {
    return Promise.all(Array.from(this.#masters.mastersOf(slots), ([master, at]) => work(master, at)));
  }
}
