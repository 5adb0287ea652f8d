import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import { errorsIn } from '../support/log-lines.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { expectError, idsOf } from '../support/responses.ts';
import { type Service, startService } from '../support/service.ts';

const MIB = 1024 * 1024;
const NOT_JSON = 'Request body must be valid JSON';
const NO_CHANNEL_IDS = 'Request body must include a `channel_ids` array';
const NO_REGISTRY_IDS = 'Request body must include a `registry_ids` array';
const NOT_INTEGER = 'registry_id must be an integer';
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
      { id: 'zero', registry_id: 0 },
      { id: 'minus', registry_id: -5 },
      { id: 'exact', registry_id: '9007199254740991' },
      { id: 'least', registry_id: '-9007199254740991' },
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
  it.each([
    ...['', ' \n', 'channel_ids=CH-1', '{"channel_ids":["CH-1"]', "{'channel_ids':['CH-1']}"],
    ...['{"channel_ids":["CH-1",]}', '{"channel_ids":["CH-1"]}x', '{"channel_ids":["\\x41"]}'],
    ...['{"channel_ids":[01]}', '{"channel_ids":[NaN]}', '\0\0\0\0'],
  ])('is rejected if it is not JSON: %j', async (body) => {
    expectError(await byChannel(body), 400, NOT_JSON);
    expectError(await byRegistry(body.replace('channel_ids', 'registry_ids')), 400, NOT_JSON);
  });

  it.each([
    ...['{}', '[]', 'null', '1', '"channel_ids"', '["CH-1"]', '[{"channel_ids":["CH-1"]}]'],
    ...['{"ids":["CH-1"]}', '{"Channel_ids":["CH-1"]}', '{"channel_ids":null}', '{"channel_ids":"CH-1"}'],
    ...['{"channel_ids":{"0":"CH-1","length":1}}', '{"__proto__":{"channel_ids":["CH-1"]}}'],
    '{"a":{"channel_ids":["CH-1"]},"b":"channel_ids"}',
  ])('is rejected without the array: %s', async (body) => {
    expectError(await byChannel(body), 400, NO_CHANNEL_IDS);
    expectError(await byRegistry(body.replaceAll('channel_ids', 'registry_ids')), 400, NO_REGISTRY_IDS);
    expectError(await byRegistry({ channel_ids: ['CH-1'] }), 400, NO_REGISTRY_IDS);
  });

  it.each(['1', 'null', 'true', '[]', '["CH-1"]', '{}', '1.5'])(
    'is rejected if a channel id is not a string: %s',
    async (element) => {
      expectError(await byChannel(`{"channel_ids":["CH-1",${element},"CH-2"]}`), 400, /channel_ids/);
    },
  );

  it.each([
    ...['1.5', '5000015e-1', '1e-3', '1.00000000000000000000000001', '1e-99999999999999999999'],
    ...[
      'null',
      'true',
      '[]',
      '[500001]',
      '{}',
      '""',
      '" "',
      '" 500001"',
      '"500001\\n"',
      '"+500001"',
      '"1.0"',
    ],
    ...['"1e3"', '"0x10"', '"-"', '"--5"', '"abc"', '"5_0"', '"5\\u0000"', '"٥"', '"__proto__"'],
  ])('is rejected if a registry id is not an integer: %s', async (element) => {
    expectError(await registries(element), 400, NOT_INTEGER);
    expectError(await registries('500001', element, '"500002"'), 400, NOT_INTEGER);
  });

  it.each([
    ...['500001.0', '5.00001e5', '5.00001E+05', '50000100e-2', '500001e-0', '"0500001"'],
    '"000000000000000000000500001"',
  ])('accepts an integer in any notation, by its value: %s', async (element) => {
    expect(idsOf(await registries(element))).toEqual(['h1']);
    expect(idsOf(await registries('"500002"', element, '500001'))).toEqual(['h2', 'h1']);
  });

  it('accepts integers up to 2^53-1 exactly, and zero and its negative', async () => {
    expect(idsOf(await registries('900719925474099.1e1', '-9007199254740991'))).toEqual(['exact', 'least']);
    expect(idsOf(await registries('"9007199254740991"', '"-9007199254740991"'))).toEqual(['exact', 'least']);
    expect(idsOf(await registries('0', '-0', '"-0"', '"00"', '0e999999999999'))).toEqual(['zero']);
    expect(idsOf(await registries('-5', '"-5"', '"-05"'))).toEqual(['minus']);
  });

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
    ['"\\u005f_proto__"', 'proto'],
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

  it.each(['ff', 'c0af', 'eda080', 'f5808080', 'e4b8'])(
    'that is not UTF-8 is not JSON: %s',
    async (bytes) => {
      const parts = ['{"channel_ids":["', Buffer.from(bytes, 'hex'), '"]}'];
      expectError(
        await byChannel(Buffer.concat(parts.map((part) => Buffer.from(part as string)))),
        400,
        NOT_JSON,
      );
    },
  );

  it('accepts further members, whitespace and escapes; the name of the array within others means nothing', async () => {
    for (const body of [
      ' {\r\n\t"a": [1, {"b": null}], "channel_ids" : [ "CH-1" ,\n"CH-2" ] , "__proto__": {} }\n ',
      '{"channel\\u005fids":["CH-1","CH-2"]}',
      '{"a":{"channel_ids":[1.5]},"b":"\\"channel_ids\\":[1.5]","channel_ids":["CH-1","CH-2"]}',
    ]) {
      expect(idsOf(await byChannel(body))).toEqual(['h1', 'h2']);
      const numbers = body.replaceAll('channel', 'registry').replaceAll('CH-', '50000');
      expect(idsOf(await byRegistry(numbers))).toEqual(['h1', 'h2']);
    }
  });

  it.each([
    ...['application/json; charset=utf-8', 'text/plain', 'application/x-www-form-urlencoded', 'nonsense', ''],
  ])('is accepted with any content type: %j', async (type) => {
    const headers = { 'content-type': type };
    expect(idsOf(await byChannel('{"channel_ids":["CH-1"]}', { headers }))).toEqual(['h1']);
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
