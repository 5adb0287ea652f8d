import { connect as connectByTcp, isIP, type Socket } from 'node:net';
import { connect as connectByTls, type TLSSocket } from 'node:tls';
import { AbstractConnector, type RedisOptions } from 'ioredis';

/**
 * Creates a connector for nodes of a cluster that calls back with the error of each failed connection. ioredis reads
 * the slot map on connections of its own, and reports only that they are closed.
 */
export function connectorReporting(onError: (error: Error) => void) {
  return class extends AbstractConnector {
    readonly #options: RedisOptions;

    constructor(options: unknown) {
      super((options as RedisOptions).disconnectTimeout!);
      this.#options = options as RedisOptions;
    }

    override async connect(): Promise<Socket | TLSSocket> {
      this.connecting = true;
      const { host = '127.0.0.1', port = 6379, tls } = this.#options;
      const stream = tls
        ? connectByTls({ host, port, ...(!isIP(host) && { servername: host }), ...tls })
        : connectByTcp({ host, port });
      this.stream = stream;
      stream.once('error', (error) => {
        this.firstError = error;
        onError(error);
      });
      return stream;
    }
  };
}
