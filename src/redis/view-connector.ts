import { connect, type Socket, type TcpNetConnectOpts } from 'node:net';
import { AbstractConnector, type RedisOptions } from 'ioredis';

/** Maximum size of a read: few reads for a batch of 1000, and the bytes are still in the processor's cache. */
const BUFFER_BYTES = 262_144;

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
