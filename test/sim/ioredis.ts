import { EventEmitter } from 'node:events';
import type { Timer } from '../../src/lib/clock.ts';
import { Connection } from './network.ts';
import { present } from './present.ts';
import { commandsOf, type RedisServer, type Reply, written } from './redis.ts';
import type { Process } from './world.ts';

type Word = string | number | Buffer | Uint8Array;

interface Options {
  host?: string;
  port?: number;
  connectTimeout?: number;
  socketTimeout?: number;
  retryStrategy?: (attempt: number) => number;
}

type Send = (commands: Buffer[][], answered: (replies: Reply[]) => void) => void;

/** Socket of a client, for what is written past its queue of commands. */
class Stream extends EventEmitter {
  readonly #connection: Connection;
  readonly #send: Send;

  constructor(connection: Connection, send: Send) {
    super();
    this.#connection = connection;
    this.#send = send;
  }

  get writable(): boolean {
    return !this.#connection.isClosed;
  }

  write(bytes: Buffer, onSent?: () => void): void {
    // the caller uses its buffer again
    const commands = commandsOf(Buffer.from(bytes));
    if (onSent) queueMicrotask(onSent);
    this.#send(commands, (replies) => {
      const answer = Buffer.concat(replies.map(written));
      // the bytes arrive in two parts
      for (const part of [answer.subarray(0, answer.length >> 1), answer.subarray(answer.length >> 1)])
        if (part.length > 0) this.emit('data', part);
    });
  }

  destroy(): void {
    if (!this.writable) return;
    this.#connection.close();
    this.#connection.onLost?.();
  }
}

/** Stands for `Redis` of ioredis. */
export class Redis extends EventEmitter {
  readonly options: Options & { host: string; port: number };
  status: 'wait' | 'connecting' | 'ready' | 'close' | 'end' = 'wait';
  stream!: Stream;
  readonly #process: Process;
  #connection: Connection | undefined;
  #giveUp: (() => void) | undefined;
  #attempt = 0;
  /** when the server executes what was sent last: it answers a connection in order */
  #executedAtMs = -Infinity;
  #retry: Timer | undefined;
  readonly #pending = new Set<(error: Error) => void>();

  constructor(url: string | Options, options: Options = {}) {
    super();
    const address = typeof url === 'string' ? { host: new URL(url).hostname, port: 6379 } : {};
    this.options = { host: '', port: 6379, ...(typeof url === 'string' ? options : url), ...address };
    this.#process = present().world.current!;
    this.#connect();
  }

  eval(...words: Word[]): Promise<Reply> {
    return this.call('eval', ...words);
  }

  /** Not asked: a simulated server never loads a snapshot. */
  info(): Promise<string> {
    return Promise.resolve('');
  }

  mgetBuffer(key: string): Promise<Reply> {
    return this.call('mget', key);
  }

  pipeline(commands: Word[][]): { exec: () => Promise<[Error | null, Reply?][]> } {
    return {
      exec: () =>
        Promise.all(
          commands.map((words) =>
            this.call(...words).then(
              (reply): [null, Reply] => [null, reply],
              (error: Error): [Error] => [error],
            ),
          ),
        ),
    };
  }

  async call(...words: Word[]): Promise<Reply> {
    if (this.status !== 'ready')
      throw new Error("Stream isn't writeable and enableOfflineQueue options is false");
    const command = words.map((word) => Buffer.from(typeof word === 'number' ? `${word}` : (word as string)));
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    this.#pending.add(reject);
    const { socketTimeout } = this.options;
    const destroy = () => this.stream.destroy();
    const timer = socketTimeout === undefined ? undefined : this.#process.setTimer(destroy, socketTimeout);
    this.#send([command], ([reply]) => {
      if (reply instanceof Error) reject(reply);
      else resolve(reply!);
    });
    return promise.finally(() => {
      this.#pending.delete(reject);
      this.#process.clearTimer(timer);
    });
  }

  disconnect(reconnect = false): void {
    if (!reconnect) this.status = 'end';
    this.#giveUp?.();
    this.#process.clearTimer(this.#retry);
    if (this.#connection) this.stream.destroy();
    else this.#closed(reconnect);
  }

  #send(commands: Buffer[][], answered: (replies: Reply[]) => void): void {
    const connection = this.#connection!;
    const server = connection.server as RedisServer;
    const { world } = present();
    connection.ask(() => {
      const { run } = server;
      this.#executedAtMs = Math.max(this.#executedAtMs, world.nowMs + server.delayMs);
      world.at(this.#executedAtMs, () =>
        server.whenRunning(() => {
          if (run !== server.run) return;
          const replies = commands.map((command) => server.execute(command));
          connection.down(() => this.#connection === connection && answered(replies));
        }),
      );
    });
  }

  #connect(): void {
    const { network, redis } = present();
    const process = this.#process;
    const server = redis.resolve(this.options.host, process.host.name);
    this.status = 'connecting';
    const opened = (connection: Connection | undefined, code: string) => {
      if (!connection) {
        this.emit('error', new Error(`connect ${code}`));
        this.#closed(true);
        return;
      }
      this.#connection = connection;
      this.#attempt = 0;
      connection.onLost = () => {
        if (this.#connection === connection) this.#closed(true);
      };
      this.stream = new Stream(connection, (commands, answered) => this.#send(commands, answered));
      this.status = 'ready';
      this.emit('ready');
    };
    this.#giveUp = Connection.dial(network, process, server, this.options.connectTimeout!, opened);
  }

  #closed(mayRetry: boolean): void {
    this.#connection = undefined;
    for (const reject of [...this.#pending]) reject(new Error('Connection is closed.'));
    this.#pending.clear();
    if (this.status !== 'end') this.status = 'close';
    this.emit('close');
    const { retryStrategy } = this.options;
    if (this.status === 'end' || !mayRetry || !retryStrategy) {
      this.status = 'end';
      this.emit('end');
      return;
    }
    this.#retry = this.#process.setTimer(() => this.#connect(), retryStrategy(++this.#attempt));
  }
}

/** What the connectors of the service extend: a simulated client has no sockets. */
export class AbstractConnector {}
