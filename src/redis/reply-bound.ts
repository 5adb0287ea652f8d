import type { Redis as Client } from 'ioredis';

/** Bound of a reply that ioredis reads: keys of a scan, results of scripts, INFO. They have some kilobytes. */
const MAX_REPLY_BYTES = 8 * 1024 * 1024;

/** What is used of ioredis' queue of commands without a reply; it is replaced with the connection. */
interface Queueing {
  commandQueue: { peekFront(): unknown };
}

/**
 * Replaces the connection of a client whose server sends a reply without an end. ioredis would keep its bytes until the
 * memory is full.
 */
export function boundReplies(client: Client): void {
  client.on('connect', () => {
    const { stream } = client;
    let oldest: unknown;
    let received = 0;
    stream.on('data', (chunk: Buffer) => {
      const front = (client as unknown as Queueing).commandQueue.peekFront();
      if (front !== oldest) {
        oldest = front;
        received = 0;
      }
      received += chunk.length;
      if (received > MAX_REPLY_BYTES) stream.destroy(new Error('Redis sent a reply without an end'));
    });
  });
}
