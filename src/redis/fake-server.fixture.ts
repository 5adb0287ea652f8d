import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

/** Reply to INFO of a server that is ready. */
export const INFO = '$9\r\nloading:0\r\n';

/** Server that answers what ioredis asks before it is ready, and leaves all other commands to `answer`. */
export class FakeServer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  connections = 0;
  info = INFO;
  /** called with the words of a command, its name in lower case */
  answer: (socket: Socket, words: string[]) => void = () => {};

  private constructor() {
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** Listens at one address of the loopback, or at every one. */
  static async start(host: '127.0.0.1' | '0.0.0.0' = '127.0.0.1'): Promise<FakeServer> {
    const server = new FakeServer();
    server.#server.listen(0, host);
    await once(server.#server, 'listening');
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(socket: Socket): void {
    this.connections++;
    this.#sockets.add(socket);
    socket.on('error', () => {});
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
      for (let head = /^\*(\d+)\r\n/.exec(received); head; head = /^\*(\d+)\r\n/.exec(received)) {
        const lines = received.split('\r\n');
        const count = 1 + 2 * Number(head[1]);
        if (lines.length <= count) return;
        received = lines.slice(count).join('\r\n');
        const [name, ...rest] = lines.slice(0, count).filter((_, i) => i > 0 && i % 2 === 0);
        this.#receive(socket, [name!.toLowerCase(), ...rest]);
      }
    });
  }

  #receive(socket: Socket, words: string[]): void {
    if (words[0] === 'info') socket.write(this.info, 'latin1');
    else this.answer(socket, words);
  }
}
