import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import { errorsIn } from '../support/log-lines.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { expectError, idsOf } from '../support/responses.ts';
import { type Service, startService } from '../support/service.ts';

const MIB = 1024 * 1024;
const HOTELS = 1_000;

let service: Service;

beforeAll(async () => {
  const many = Array.from({ length: HOTELS }, (_, i) => ({
    id: `h${i}`,
    channel_id: `CH-${i}`,
    registry_id: 500_000 + i,
  }));
  service = await startService({
    hotels: [
      ...many,
      { id: 'proto', channel_id: '__proto__' },
      { id: 'constructor', channel_id: 'constructor' },
      { id: 'replacement', channel_id: '\ufffd' },
      { id: 'emoji', channel_id: '😀"\\\n' },
      { id: 'digits', channel_id: '500001' },
    ],
  });
});

const byChannel = (body: string | Buffer | object, options = {}) =>
  service.post('/hotels/channel/batch', body, options);
const byRegistry = (body: string | Buffer | object) => service.post('/hotels/registry/batch', body);
const channels = (...ids: unknown[]) => byChannel({ channel_ids: ids });
/** Takes the elements as JSON text, which preserves 1.0 and long numbers. */
const registries = (...elements: string[]) => byRegistry(`{"registry_ids":[${elements}]}`);

describe('a batch', () => {
  it('returns hotels in the requested order, each once, from the database and from caches', async () => {
    for (let round = 0; round < 3; round++) {
      expect(idsOf(await channels('CH-7', 'CH-3', 'CH-7', 'CH-nobody', 'CH-3', 'CH-1', 'CH-nobody'))).toEqual(
        [...['h7', 'h3', 'h1']],
      );
      expect(idsOf(await registries('500017', '500013', '"500017"', '1', '-500001', '500011'))).toEqual([
        ...['h17', 'h13', 'h11'],
      ]);
      expect(idsOf(await channels('h1', ''))).toEqual([]);
    }
    // some are cached by now and some are not
    expect(idsOf(await channels('CH-20', 'CH-3', 'CH-21', 'CH-1'))).toEqual(['h20', 'h3', 'h21', 'h1']);
  });

  it('of no ids returns an empty array', async () => {
    expect((await channels()).text).toBe('[]');
    expect((await registries()).text).toBe('[]');
  });

  it('accepts 1000 ids, and no more; duplicates count', async () => {
    // 7 and 1000 have no common divisor: each place once, in an order unlike that of the table
    const places = Array.from({ length: HOTELS }, (_, i) => (i * 7) % HOTELS);
    const expected = places.map((place) => `h${place}`);
    const channelIds = places.map((place) => `CH-${place}`);
    const registryIds = places.map((place) => String(500_000 + place));
    for (let round = 0; round < 2; round++) {
      expect(idsOf(await channels(...channelIds))).toEqual(expected);
      expect(idsOf(await registries(...registryIds))).toEqual(expected);
    }
    expect(idsOf(await channels(...new Array(1_000).fill('CH-1')))).toEqual(['h1']);
    for (const id of ['CH-1', 'nobody'])
      expectError(await channels(...new Array(1_001).fill(id)), 400, /channel_ids.*1000/);
    expectError(await channels(...channelIds, 'one more'), 400, /channel_ids.*1000/);
    expectError(await registries(...registryIds, '1'), 400, /registry_ids.*1000/);
    expectError(await registries(...new Array(1_001).fill('1.5')), 400, /registry_ids.*1000/);
  });

  it('returns a new hotel, even if the id was cached as absent', async () => {
    const both = async () => [
      ...idsOf(await channels('CH-new', 'CH-1')),
      ...idsOf(await registries('700001', '500001')),
    ];
    expect(await both()).toEqual(['h1', 'h1']);
    await service.insert({ id: 'new', channel_id: 'CH-new', registry_id: 700_001 });
    await expect.poll(both).toEqual(['new', 'h1', 'new', 'h1']);
  });
});

// src/http/batch-body.test.ts compares any body with what JSON.parse makes of it
describe('the body of a batch', () => {
  it.each([...['500001.0', '5.00001e5', '50000100e-2', '"0500001"', '"000000000000000000000500001"']])(
    'accepts an integer in any notation, by its value: %s',
    async (element) => {
      expect(idsOf(await registries('"500002"', element, '500001'))).toEqual(['h2', 'h1']);
    },
  );

  it.each([
    ...['9007199254740992', '"9007199254740993"', '"-9223372036854775808"', '9223372036854775808'],
    ...['123456789012345678901234567890', '1e400', '-1.5e99999999999999999999'],
    // 2^64 more than an existing id
    ...['18446744073710051617', '"18446744073710051617"'],
  ])('accepts an integer that no hotel can have: %s', async (element) => {
    expect(idsOf(await registries('500001', element, '500002'))).toEqual(['h1', 'h2']);
  });

  it.each([
    ['"__proto__"', 'proto'],
    ['"constructor"', 'constructor'],
    ['"\\uFFFD"', 'replacement'],
    ['"\\ud83d\\ude00\\"\\\\\\n"', 'emoji'],
    ['"😀\\"\\\\\\u000a"', 'emoji'],
    ['"500001"', 'digits'],
    ['"CH\\u002d1"', 'h1'],
  ])('accepts any text: %s', async (element, id) => {
    for (let round = 0; round < 2; round++)
      expect(idsOf(await byChannel(`{"channel_ids":["CH-5",${element},"nobody"]}`))).toEqual(['h5', id]);
  });

  it.each([
    ...['"\\ud800"', '"\\ude00\\ud83d"', '"CH-1\\ud800"', '"\\u0000"', '"CH-1\\u0000"', '"toString"'],
    ...['"ch-1"', '"CH-1 "', '"CH-01"', '""'],
  ])('accepts a text without a hotel, which matches none: %s', async (element) => {
    expect(idsOf(await byChannel(`{"channel_ids":["CH-5",${element},"CH-6"]}`))).toEqual(['h5', 'h6']);
  });

  it('is accepted with any content type', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'nonsense', '']) {
      const headers = { 'content-type': type };
      expect(idsOf(await byChannel('{"channel_ids":["CH-1"]}', { headers }))).toEqual(['h1']);
    }
  });
});

describe('the size of a body', () => {
  /** Returns a valid body of this many bytes. */
  const padded = (bytes: number) => `${'{"channel_ids":["CH-1"'.padEnd(bytes - 2)}]}`;

  /** Sends a head and a body, and reads one response, which may come before the whole body is read. */
  async function send(framing: string, body: string): Promise<{ status: number; text: string }> {
    const connection = new RawConnection(service.port);
    const head = `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n`;
    void connection.write(`${head}${framing}\r\n\r\n${body}`);
    const response = await connection.read();
    connection.close();
    return { status: response!.status, text: response!.body };
  }

  /** Sends a body in pieces with the headers. A response counts even if the server closes before it has read everything. */
  function sendPieces(body: string, headers: Record<string, string | number>) {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
    const agent = new Agent({ keepAlive: true });
    const outgoing = request(`${service.url}/hotels/channel/batch`, {
      ...{ method: 'POST', agent },
      headers: { 'x-api-key': service.fullKey, ...headers },
    });
    outgoing.on('response', (response) => {
      text(response).then((content) => resolve({ status: response.statusCode!, text: content }), reject);
    });
    // after a response the promise is settled, and this has no effect
    outgoing.on('error', reject);
    for (let at = 0; at < body.length; at += 60_000) outgoing.write(body.slice(at, at + 60_000));
    outgoing.end();
    return promise.finally(() => agent.destroy());
  }

  it.each([
    ['with its length announced', (body: string) => ({ 'content-length': body.length })],
    ['in chunks', () => ({ 'transfer-encoding': 'chunked' })],
  ])('is at most 1 MiB, to the byte, %s', async (_, headersOf) => {
    const sendBody = (body: string) => sendPieces(body, headersOf(body));
    const good = await sendBody(padded(MIB));
    expect([good.status, JSON.parse(good.text)[0].id]).toEqual([200, 'h1']);
    for (const bytes of [MIB + 1, 5 * MIB]) expectError(await sendBody(padded(bytes)), 413, /1 MiB/);
    expect((await channels('CH-1')).status).toBe(200);
  });

  it('is judged by its content-length, before it is sent', async () => {
    expectError(await send(`Content-Length: ${MIB + 1}`, '{'), 413, /1 MiB/);
  });
});

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});
