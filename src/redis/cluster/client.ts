import slotOf from 'cluster-key-slot';
import { waitUntilReady } from '../client.ts';
import type { ValuesReader } from '../reply-parser.ts';
import type { RedisStore, TimedValue, WindowCount, WindowUse } from '../store.ts';
import { Masters } from './masters.ts';
import { MgetKeys } from './mget-keys.ts';

/**
 * Client of a Redis Cluster. Keys have no hash tags, so a batch spreads over all nodes. Commands go to each node at
 * once, in one round trip, and an unavailable node affects its own keys only. A key whose slot is moving is a miss.
 */
export class RedisCluster extends Masters implements RedisStore {
  connected(timeoutMs: number): Promise<boolean> {
    return waitUntilReady(() => this.ready, timeoutMs);
  }

  async read(key: string): Promise<Buffer | null | undefined> {
    const [value] = await this.atMasters([slotOf(key)], (master) => master.read(key));
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
    const parts = await this.atMasters(keysOfCommand.slots, async (master, at) => ({
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
    await this.atMasters(slots, (master, at) => master.setMany(at.map((i) => values[i]!)));
  }

  async countWindow(key: string, use: WindowUse): Promise<WindowCount | undefined> {
    const [count] = await this.atMasters([slotOf(key)], (master) => master.countWindow(key, use));
    return count;
  }
}
