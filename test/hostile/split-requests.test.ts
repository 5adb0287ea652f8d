import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { randomFrom } from '../../bench/draws.ts';
import { inForm, survived } from '../support/form.ts';
import { closeAtEnd } from '../support/left-behind.ts';
import { type Service, startService } from '../support/service.ts';
import { workersOf } from './memory.ts';

const HOTELS = 300;
const CONNECTIONS = 64;
const SEED = 20_261_121;

let service: Service;
let pidsBefore: number[];
let linesBefore: number;

beforeAll(async () => {
  service = await startService({
    workers: 2,
    hotels: Array.from({ length: HOTELS }, (_, i) => ({
      id: `h${i}`,
      channel_id: `CH-${i}`,
      registry_id: 500_000 + i,
      description: `${i} `.repeat(100),
    })),
  });
  pidsBefore = await workersOf(service, 2);
  linesBefore = service.logs().length;
  // both workers have cached the key and the hotels, so responses are made in the iteration in which a request is read
  const ids = Array.from({ length: HOTELS }, (_, i) => `CH-${i}`);
  await Promise.all(
    Array.from({ length: 16 }, () => service.post('/hotels/channel/batch', { channel_ids: ids })),
  );
});

interface Request {
  text: string;
  requestId: string;
  /** of the hotels in the response, in order; undefined: a single hotel */
  ids: string[];
}

let made = 0;

function requestFor(random: () => number): Request {
  const requestId = `request-${++made}`;
  const number = () => Math.floor(random() * HOTELS);
  const head = `Host: a\r\nx-api-key: ${service.fullKey}\r\nx-request-id: ${requestId}\r\n`;
  const kind = random();
  if (kind < 0.4) {
    const i = number();
    const path = [`/hotels/h${i}`, `/hotels/channel/CH-${i}`, `/hotels/registry/${500_000 + i}`][made % 3];
    return { text: `GET ${path} HTTP/1.1\r\n${head}\r\n`, requestId, ids: [`h${i}`] };
  }
  const some = [...new Set(Array.from({ length: 1 + Math.floor(random() * 60) }, number))];
  const body = JSON.stringify({ channel_ids: some.map((i) => `CH-${i}`) });
  const start = `POST /hotels/channel/batch HTTP/1.1\r\n${head}`;
  const ids = some.map((i) => `h${i}`);
  if (kind < 0.8) return { text: `${start}Content-Length: ${body.length}\r\n\r\n${body}`, requestId, ids };
  const cut = Math.floor(random() * body.length);
  const chunks = [body.slice(0, cut), body.slice(cut)].filter(Boolean);
  const written = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');
  return { text: `${start}Transfer-Encoding: chunked\r\n\r\n${written}0\r\n\r\n`, requestId, ids };
}

/** Connection whose responses are read in order, by their lengths. */
class Line {
  readonly #socket: Socket;
  #bytes = Buffer.alloc(0);
  #arrived = Promise.withResolvers<void>();
  closed = false;

  constructor() {
    this.#socket = connect({ port: service.port, host: '127.0.0.1', noDelay: true });
    this.#socket.on('data', (chunk) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
      this.#arrived.resolve();
    });
    this.#socket.on('error', () => {});
    this.#socket.on('close', () => {
      this.closed = true;
      this.#arrived.resolve();
    });
  }

  /** Writes; resolves when the kernel has the bytes. */
  write(text: string): Promise<void> {
    return new Promise((resolve) => this.#socket.write(text, 'latin1', () => resolve()));
  }

  /** Reads the next response; undefined if the connection closed before it was complete. */
  async read(): Promise<{ head: string; body: string } | undefined> {
    for (;;) {
      const end = this.#bytes.indexOf('\r\n\r\n');
      const head = end < 0 ? '' : this.#bytes.toString('latin1', 0, end);
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1]);
      if (end >= 0 && this.#bytes.length >= end + 4 + length) {
        const body = this.#bytes.toString('utf8', end + 4, end + 4 + length);
        this.#bytes = this.#bytes.subarray(end + 4 + length);
        return { head, body };
      }
      if (this.closed) return undefined;
      this.#arrived = Promise.withResolvers();
      await this.#arrived.promise;
    }
  }

  /** Unread bytes. */
  get rest(): string {
    return this.#bytes.toString('latin1');
  }

  leave(): void {
    this.#socket.destroy();
  }
}

/** Returns the fault of the response to this request; undefined if it is right. */
function faultOf(
  { requestId, ids }: Request,
  { head, body }: { head: string; body: string },
): string | undefined {
  if (!head.startsWith('HTTP/1.1 200 ')) return `${head.slice(0, 30)}: ${body.slice(0, 100)}`;
  const echoed = /\r\nx-request-id: ([^\r]*)/.exec(head)?.[1];
  if (echoed !== requestId) return `${requestId} was answered as ${echoed}`;
  const parsed = JSON.parse(body);
  const found = [parsed].flat().map(({ id }: { id: string }) => id);
  return found.join() === ids.join() ? undefined : `${requestId} asked for ${ids} and got ${found}`;
}

const saysClose = (head: string): boolean => /\r\nconnection: close(\r\n|$)/i.test(head);

async function expectWell(): Promise<void> {
  expect((await service.workerPids()).sort()).toEqual(pidsBefore);
  expect(
    service
      .logs()
      .slice(linesBefore)
      .filter((line) => ['error', 'fatal'].includes(JSON.parse(line).level)),
  ).toEqual([]);
}

/** Number of connections that reach each of two workers, except with a probability of 2^-15. */
const CHECKERS = 16;

/**
 * Returns a function that resolves when every worker has read all bytes written before. Later connections must have two
 * responses, because the first bytes of a connection are read one iteration after it is accepted.
 */
function watchReading(): () => Promise<void> {
  const lines = Array.from({ length: CHECKERS }, () => new Line());
  closeAtEnd('witnesses', async () => {
    for (const line of lines) line.leave();
  });
  const get = `GET /hotels/h0 HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n\r\n`;
  const ask = async (line: Line) => {
    await line.write(get);
    expect((await line.read())?.head).toMatch(/^HTTP\/1\.1 200 /);
  };
  return async () => {
    for (let round = 0; round < 2; round++) await Promise.all(lines.map(ask));
  };
}

describe('a request in two parts', () => {
  const kinds: [kind: string, request: () => Request][] = [
    ['a GET', () => requestFor(() => 0)],
    ['a batch', () => requestFor(() => 0.5)],
    ['a batch in chunks', () => requestFor(() => 0.9)],
  ];

  it.each(kinds)(
    'is served, or rejected and closed, for a cut at any byte: %s',
    async (_, request) => {
      const length = request().text.length;
      const rejected: string[] = [];
      const read = watchReading();
      // many cuts at once share the wait between the parts
      for (let start = 1; start < length; start += 100) {
        const cuts = Array.from({ length: Math.min(100, length - start) }, (_, i) => start + i);
        const begun = await Promise.all(
          cuts.map(async (cut) => {
            const asked = request();
            const line = new Line();
            await line.write(asked.text.slice(0, cut));
            return { cut, asked, line };
          }),
        );
        await read();
        await Promise.all(
          begun.map(async ({ cut, asked, line }) => {
            await line.write(asked.text.slice(cut));
            const answer = await line.read();
            const fault = answer && faultOf(asked, answer);
            if (fault === undefined && answer && saysClose(answer.head)) {
              expect(asked.text).toContain('Transfer-Encoding: chunked');
              line.leave();
              return;
            }
            if (fault === undefined && answer) {
              // the connection is in step: a second request is served too
              const next = request();
              await line.write(next.text);
              const second = await line.read();
              expect(second && faultOf(next, second)).toBeUndefined();
              line.leave();
              return;
            }
            // the library rejects a version that it has not read completely
            expect(asked.text.slice(0, cut), fault).toMatch(/^[A-Z]+ \S* ?H?T?T?P?\/?1?\.?1?\r?$/);
            rejected.push(asked.text.slice(0, cut).split(' ').at(-1)!);
            expect(line.rest + (answer?.head ?? '')).not.toContain('200 OK');
            line.leave();
          }),
        );
      }
      if (process.env.DEBUG) console.log(rejected);
      expect(rejected.length).toBeLessThanOrEqual(12);
      await expectWell();
    },
    30_000,
  );
});

it(
  'responses are never mixed between clients, for any cuts of requests and with aborts',
  async (context) => {
    const requests = inForm(150, 2_000);
    const faults: string[] = [];
    let answered = 0;
    const client = async (number: number) => {
      const random = randomFrom(SEED + number);
      let line = new Line();
      for (let i = 0; i < requests; i++) {
        const asked = requestFor(random);
        // not within the request line, where the library rejects some cuts
        const from = asked.text.indexOf('\r\n') + 2;
        let at = 0;
        for (let parts = Math.floor(random() * 4); parts > 0; parts--) {
          const cut = from + Math.floor(random() * (asked.text.length - from));
          if (cut <= at) continue;
          await line.write(asked.text.slice(at, cut));
          at = cut;
          if (random() < 0.3) await sleep(1);
        }
        if (random() < 0.03) {
          line.leave();
          line = new Line();
          continue;
        }
        await line.write(asked.text.slice(at));
        if (random() < 0.03) {
          line.leave();
          line = new Line();
          continue;
        }
        const answer = await line.read();
        if (!answer) {
          faults.push(`${asked.requestId}: the connection was closed`);
          line = new Line();
          continue;
        }
        const fault = faultOf(asked, answer);
        if (fault) faults.push(fault);
        answered++;
        if (saysClose(answer.head)) {
          line.leave();
          line = new Line();
        }
      }
      line.leave();
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, (_, number) => client(number)));
    expect(faults.slice(0, 5)).toEqual([]);
    survived(context, 'hostile clients', `requests cut at random on ${CONNECTIONS} connections`, {
      answered,
      mixed: 0,
    });
    await expectWell();
  },
  inForm(30_000, 300_000),
);

describe('a GET with a body', () => {
  it.each([
    ['an unknown path', 'GET /nowhere'],
    ['an empty id', 'GET /hotels/'],
    ['a path of a POST', 'GET /hotels/channel/batch'],
    ['HEAD of an unknown path', 'HEAD /nowhere'],
  ])('closes the connection, and its body is not read as a request: %s', async (_, start) => {
    const smuggled = `GET /hotels/h7 HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n\r\n`;
    for (const framing of [`Content-Length: ${smuggled.length}`, 'Transfer-Encoding: chunked']) {
      const answer = await service.raw(
        `${start} HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n${framing}\r\n\r\n${smuggled}`,
      );
      expect(answer.toString()).not.toContain('200 OK');
      expect(answer.toString()).not.toContain('h7');
    }
  });

  it.each(['PUT', 'DELETE', 'OPTIONS', 'PATCH', 'POST'])(
    'of another method is rejected, and its body is not read as a request: %s',
    async (method) => {
      const smuggled = `GET /hotels/h7 HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n\r\n`;
      const answers = ['/hotels/h1', '/nowhere'].map((path) =>
        service.raw(
          `${method} ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`,
        ),
      );
      for (const answer of await Promise.all(answers)) {
        expect(answer.toString()).not.toContain('200 OK');
        expect(answer.toString()).not.toContain('"h7"');
      }
    },
  );
});
