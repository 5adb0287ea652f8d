import { connect, type Socket, type TcpNetConnectOpts } from 'node:net';
import { AbstractConnector, type Redis as Client, type RedisOptions } from 'ioredis';
import { clearTimer, monotonicMs, onIteration, setTimer } from '../lib/clock.ts';
import type { ValuesReader } from './reply-parser.ts';
import { disconnectionOf, silenceMs } from './store.ts';

/** Time that each key adds to the deadline of its read, and of those behind it: eight concurrent batches of 1000 are 8 MB. */
const MS_PER_KEY = 0.02;
/** Bounds of a reply, for each key and for all. An entry has at most 70 kB. A longer value of another program is read as invalid. */
const MAX_BYTES_PER_KEY = 128 * 1024;
const MAX_MORE_BYTES = 8 * 1024 * 1024;
/** Bound of the bytes of all incomplete replies of a process: each master of a cluster may begin one. */
const MAX_INCOMPLETE_BYTES = 160 * 1024 * 1024;

/** Maximum size of a read: few reads for a batch of 1000, and the bytes are still in the processor's cache. */
const BUFFER_BYTES = 262_144;

let incompleteBytes = 0;

interface PendingRead {
  keys: number;
  sentAtMs: number;
  timeoutMs: number;
  reader: ValuesReader;
  /** received bytes of an incomplete reply */
  bytes: number;
  /** the caller has timed out, but the reply is still to be read */
  isLate: boolean;
  replied: () => void;
  fail: (error: Error) => void;
}

/**
 * Sends MGET on a connection of its own. ioredis makes the connection (address, TLS, AUTH, SELECT, retries). Its
 * reply parser is not used, because it creates several objects per value: an MGET of 1000 values of 1 kB took 2.1 ms
 * of processor time. Here the caller reads the reply as it arrives.
 */
export class MgetConnection {
  readonly #client: Client;
  readonly #timeoutMs: number;
  #stream: Client['stream'] | undefined;
  #pending: PendingRead[] = [];
  readonly #disconnection: () => Error;

  /** Takes over a client of ioredis that has no other user. */
  constructor(client: Client, timeoutMs: number) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
    this.#disconnection = disconnectionOf(client);
    client.on('ready', () => this.#begin());
    client.on('close', () => this.#lose(this.#disconnection()));
  }

  get ready(): boolean {
    return this.#stream !== undefined;
  }

  /**
   * Sends a command with the MGET of this many keys; resolves when the reply was read. Rejects after the deadline, which
   * grows with the keys of all pending reads, its own included.
   * `onSent` is called when the command's bytes are no longer needed, unless it was never to be sent.
   */
  sendMget(command: Uint8Array, keys: number, reader: ValuesReader, onSent?: () => void): Promise<void> {
    const stream = this.#stream;
    if (!stream?.writable) return Promise.reject(this.#disconnection());
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const keysPending = this.#pending.reduce((sum, pending) => sum + pending.keys, keys);
    const read: PendingRead = {
      keys,
      sentAtMs: monotonicMs(),
      timeoutMs: this.#timeoutMs + keysPending * MS_PER_KEY,
      reader,
      bytes: 0,
      isLate: false,
      replied: resolve,
      fail: reject,
    };
    // after a stall the reply may have arrived unread: it is read before the read times out
    let isOver = false;
    const timer = setTimer(() => onIteration(() => isOver || this.#late(read)), read.timeoutMs);
    this.#pending.push(read);
    stream.write(command, onSent);
    return promise.finally(() => {
      clearTimer(timer);
      isOver = true;
    });
  }

  #begin(): void {
    this.#lose(new Error('the connection to Redis was made anew'));
    const stream = this.#client.stream;
    stream.removeAllListeners('data');
    stream.on('data', (chunk: Buffer) => {
      try {
        this.#take(chunk);
      } catch (error) {
        stream.destroy(error as Error);
      }
    });
    this.#stream = stream;
  }

  #lose(reason: Error): void {
    this.#stream = undefined;
    for (const { fail, bytes } of this.#pending.splice(0)) {
      incompleteBytes -= bytes;
      fail(reason);
    }
  }

  /** A read that timed out keeps its place, so that the next reply is not taken for its own. */
  #late(read: PendingRead): void {
    read.isLate = true;
    read.fail(new Error(`Redis did not answer within ${Math.round(read.timeoutMs)} ms`));
    const [oldest] = this.#pending as [PendingRead];
    const waitedMs = monotonicMs() - oldest.sentAtMs;
    if (waitedMs > silenceMs(oldest.timeoutMs)) this.#stream?.destroy();
  }

  #take(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      const read = this.#pending[0];
      if (!read) throw new Error('Redis sent an unrequested reply');
      const from = at;
      at = read.reader.take(chunk, from);
      if (at < 0) {
        read.bytes += chunk.length - from;
        incompleteBytes += chunk.length - from;
        if (read.bytes > MAX_MORE_BYTES + read.keys * MAX_BYTES_PER_KEY)
          throw new Error('Redis sent a reply without an end');
        if (incompleteBytes > MAX_INCOMPLETE_BYTES)
          throw new Error('Redis sent too many replies without an end');
        return;
      }
      incompleteBytes -= read.bytes;
      this.#pending.shift();
      if (read.isLate) continue;
      try {
        read.reader.complete();
        read.replied();
      } catch (error) {
        read.fail(error as Error);
      }
    }
  }
}

/**
 * Connects as ioredis does (by TCP only, without TLS) and reads into one reused buffer. Otherwise each read allocates
 * 64 KiB, a megabyte per batch of 1000, and the garbage collector took half of the processor time. A listener of `data` must
 * copy the bytes that it keeps; `boundReplies` does so for ioredis.
 */
export class ViewConnector extends AbstractConnector {
  readonly #options: TcpNetConnectOpts;

  /** Takes the options that ioredis has prepared, with its defaults. */
  constructor(options: unknown) {
    const { host, port, family, disconnectTimeout } = options as RedisOptions;
    super(disconnectTimeout!);
    this.#options = { host, port: port!, family };
  }

  override async connect(): Promise<Socket> {
    this.connecting = true;
    const buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES);
    const stream: Socket = connect({
      ...this.#options,
      onread: {
        buffer,
        callback: (length) => {
          stream.emit('data', buffer.subarray(0, length));
          return true;
        },
      },
    });
    this.stream = stream;
    stream.once('error', (error) => {
      this.firstError = error;
    });
    return stream;
  }
}
