import { connect, type Socket, type TcpNetConnectOpts } from 'node:net';
import { AbstractConnector, type RedisOptions } from 'ioredis';

/** What a read takes at most: few reads for a batch of 1000, and what was read is still in the processor's cache. */
const BUFFER_BYTES = 262_144;
/** As ioredis has it. */
const DISCONNECT_TIMEOUT_MS = 2_000;
const looksAtOnce = new WeakSet<object>();

/**
 * From now on `data` events of the stream carry views of one buffer, where a ViewConnector made it: who listens looks
 * at them at once.
 */
export function lookAtOnce(stream: object): void {
  looksAtOnce.add(stream);
}

/**
 * Connects as ioredis does (but by TCP only, without TLS), and reads into one buffer that is used again. Otherwise each
 * read of a socket allocates 64 KiB: for batches of 1000 that is a megabyte each, and the garbage collector, which
 * counts these, took half of the processor time.
 */
export class ViewConnector extends AbstractConnector {
  readonly #options: TcpNetConnectOpts;

  /** Takes what ioredis made of its options. */
  constructor(options: unknown) {
    const { host, port, family, disconnectTimeout } = options as RedisOptions;
    super(disconnectTimeout ?? DISCONNECT_TIMEOUT_MS);
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
          const view = buffer.subarray(0, length);
          stream.emit('data', looksAtOnce.has(stream) ? view : Buffer.from(view));
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
