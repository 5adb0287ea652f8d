import { Agent, request } from 'node:http';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { idsOf } from '../support/ids.ts';
import { errorsIn } from '../support/log-lines.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { type Service, startService } from '../support/service.ts';
import { titled } from '../support/titled.ts';

const MIB = 1024 * 1024;
const NOT_JSON = 'Request body must be valid JSON';
const NO_CHANNEL_IDS = 'Request body must include a `channel_ids` array';
const NO_REGISTRY_IDS = 'Request body must include a `registry_ids` array';
const NOT_INTEGER = 'registry_id must be an integer';
const HOTELS = 1_100;

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
      { id: 'replacements', channel_id: 'a\ufffd\ufffd' },
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

function expectRejected(
  answer: { status: number; text: string },
  sentence: string | RegExp,
  status = 400,
): void {
  expect(answer.status).toBe(status);
  const { error, ...more } = JSON.parse(answer.text);
  if (typeof sentence === 'string') expect(error).toBe(sentence);
  else expect(error).toMatch(sentence);
  expect(more).toEqual({});
}

describe('a batch', () => {
  it('returns hotels in the requested order, from the database and from caches', async () => {
    for (let round = 0; round < 3; round++) {
      expect(idsOf(await channels('CH-7', 'CH-3', 'CH-9', 'CH-1'))).toEqual(['h7', 'h3', 'h9', 'h1']);
      expect(idsOf(await registries('500017', '500013', '"500019"', '500011'))).toEqual([
        'h17',
        'h13',
        'h19',
        'h11',
      ]);
    }
    // some are cached by now and some are not
    expect(idsOf(await channels('CH-20', 'CH-3', 'CH-21', 'CH-1'))).toEqual(['h20', 'h3', 'h21', 'h1']);
  });

  it('returns an id that is requested twice once, at its first place', async () => {
    for (let round = 0; round < 2; round++) {
      expect(idsOf(await channels('CH-2', 'CH-1', 'CH-2', 'CH-3', 'CH-1'))).toEqual(['h2', 'h1', 'h3']);
      expect(idsOf(await registries('500002', '500001', '500002'))).toEqual(['h2', 'h1']);
      expect(idsOf(await channels('CH-nobody', 'CH-1', 'CH-nobody'))).toEqual(['h1']);
    }
  });

  it('compares integers by value, in any spelling', async () => {
    const response = await registries(
      '500001',
      '"0500001"',
      '"500001"',
      '500002',
      '"000000000000000000000500001"',
    );
    expect(idsOf(response)).toEqual(['h1', 'h2']);
    expect(idsOf(await registries('"0500003"', '500003'))).toEqual(['h3']);
    expect(idsOf(await registries('0', '-0', '"-0"', '"00"', '"-00"', '0e999999999999'))).toEqual(['zero']);
    expect(idsOf(await registries('-5', '"-5"', '"-05"'))).toEqual(['minus']);
  });

  it('omits ids without a hotel', async () => {
    for (let round = 0; round < 2; round++) {
      expect(idsOf(await channels('nobody', 'CH-1', 'h1', ''))).toEqual(['h1']);
      expect(idsOf(await registries('1', '500001', '-500001'))).toEqual(['h1']);
      expect(idsOf(await channels('nobody', 'nothing'))).toEqual([]);
    }
  });

  it('of no ids returns an empty array', async () => {
    expect((await channels()).text).toBe('[]');
    expect((await registries()).text).toBe('[]');
  });

  it('accepts 1000 ids', async () => {
    // 7 and 1000 have no common divisor: each place once, in an order unlike that of the table
    const places = Array.from({ length: 1_000 }, (_, i) => (i * 7) % 1_000);
    const expected = places.map((place) => `h${place}`);
    for (let round = 0; round < 2; round++) {
      expect(idsOf(await channels(...places.map((place) => `CH-${place}`)))).toEqual(expected);
      expect(idsOf(await registries(...places.map((place) => String(500_000 + place))))).toEqual(expected);
    }
    expect(idsOf(await channels(...new Array(1_000).fill('CH-1')))).toEqual(['h1']);
  });

  it('of 1001 ids is rejected; duplicates count', async () => {
    const numbers = Array.from({ length: 1_001 }, (_, i) => i);
    expectRejected(await channels(...numbers.map((i) => `CH-${i}`)), /channel_ids.*1000/);
    expectRejected(await channels(...numbers.map(() => 'CH-1')), /channel_ids.*1000/);
    expectRejected(await channels(...numbers.map(() => 'nobody')), /channel_ids.*1000/);
    expectRejected(await registries(...numbers.map((i) => String(500_000 + i))), /registry_ids.*1000/);
    expectRejected(await registries(...numbers.map(() => '500001')), /registry_ids.*1000/);
    expectRejected(await registries(...numbers.map(() => '1.5')), /registry_ids.*1000/);
    expectRejected(await channels(...new Array(100_000).fill('CH-1')), /channel_ids.*1000/);
  });

  it('returns a new hotel within a second, even if the id was cached as absent', async () => {
    expect(idsOf(await channels('CH-new', 'CH-1'))).toEqual(['h1']);
    expect(idsOf(await registries('700001', '500001'))).toEqual(['h1']);
    await service.insert({ id: 'new', channel_id: 'CH-new', registry_id: 700_001 });
    await expect.poll(async () => idsOf(await channels('CH-new', 'CH-1'))).toEqual(['new', 'h1']);
    await expect.poll(async () => idsOf(await registries('700001', '500001'))).toEqual(['new', 'h1']);
  });
});

describe('the body of a batch', () => {
  it.each([
    ['nothing', ''],
    ['blanks', ' \n'],
    ['a word', 'channel_ids'],
    ['a cut object', '{"channel_ids":["CH-1"]'],
    ['a cut text', '{"channel_ids":["CH-1'],
    ['single quotes', "{'channel_ids':['CH-1']}"],
    ['a comma too many', '{"channel_ids":["CH-1",]}'],
    ['a comma too few', '{"channel_ids":["CH-1" "CH-2"]}'],
    ['two documents', '{"channel_ids":["CH-1"]}{"channel_ids":["CH-2"]}'],
    ['something behind', '{"channel_ids":["CH-1"]}x'],
    ['a comment', '{"channel_ids":["CH-1"]/**/}'],
    ['a line end in a text', '{"channel_ids":["CH\n1"]}'],
    ['a NUL in a text', '{"channel_ids":["CH\u00001"]}'],
    ['a wrong escape', '{"channel_ids":["\\x41"]}'],
    ['a cut escape', '{"channel_ids":["\\u12"]}'],
    ['a form', 'channel_ids=CH-1'],
    ['NaN', '{"channel_ids":[NaN]}'],
    ['zeros', '\0\0\0\0'],
    ['a million brackets', '['.repeat(1_000_000)],
    ['a million brackets in the array', `{"channel_ids":[${'['.repeat(1_000_000)}`],
    ['200,000 objects in one another', '{"a":'.repeat(200_000)],
  ])('is rejected if it is not JSON: %s', async (_, body) => {
    expectRejected(await byChannel(body), NOT_JSON);
    expectRejected(
      await byRegistry(body.replace('channel_ids', 'registry_ids').replaceAll('CH-', '50000')),
      NOT_JSON,
    );
    expect((await channels('CH-1')).status).toBe(200);
  });

  it.each([
    ['01', '1 with a leading zero'],
    ['+1', '1 with a plus'],
    ['.5', 'a fraction without its zero'],
    ['1.', 'a point without a fraction'],
    ['0x10', 'hexadecimal'],
    ['1e', 'a cut exponent'],
    ['--1', 'two minus'],
    ['1_000', 'an underscore'],
    ['undefined', 'undefined'],
  ])('is rejected if it is not JSON: registry_ids with %s, %s', async (element) => {
    expectRejected(await registries(element), NOT_JSON);
    expectRejected(await registries('500001', element), NOT_JSON);
  });

  it.each(
    [
      '{}',
      '[]',
      'null',
      'true',
      '1',
      '"channel_ids"',
      '[["CH-1"]]',
      '["CH-1"]',
      '[{"channel_ids":["CH-1"]}]',
      '{"ids":["CH-1"]}',
      '{"Channel_ids":["CH-1"]}',
      '{"channel_ids ":["CH-1"]}',
      '{"channel_ids":null}',
      '{"channel_ids":"CH-1"}',
      '{"channel_ids":{}}',
      '{"channel_ids":{"0":"CH-1","length":1}}',
      '{"channel_ids":1}',
      '{"channel_ids":false}',
      '{"__proto__":{"channel_ids":["CH-1"]}}',
      '{"a":{"channel_ids":["CH-1"]}}',
      `${'['.repeat(400_000)}${']'.repeat(400_000)}`,
    ].map(titled),
  )('is rejected without the array: %s', async (_, body) => {
    expectRejected(await byChannel(body), NO_CHANNEL_IDS);
    expectRejected(await byRegistry(body.replace('channel_ids', 'registry_ids')), NO_REGISTRY_IDS);
  });

  it('is rejected with the array of the other operation', async () => {
    expectRejected(await byChannel({ registry_ids: [500001] }), NO_CHANNEL_IDS);
    expectRejected(await byRegistry({ channel_ids: ['CH-1'] }), NO_REGISTRY_IDS);
  });

  it.each(
    ['1', 'null', 'true', '[]', '["CH-1"]', '{}', '1.5', `${'['.repeat(400_000)}${']'.repeat(400_000)}`].map(
      titled,
    ),
  )('is rejected if a channel id is not a string: %s', async (_, element) => {
    expectRejected(await byChannel(`{"channel_ids":[${element}]}`), /channel_ids/);
    expectRejected(await byChannel(`{"channel_ids":["CH-1",${element},"CH-2"]}`), /channel_ids/);
  });

  it.each([
    '1.5',
    '500001.5',
    '5000015e-1',
    '1e-3',
    '1.00000000000000000000000001',
    '12345678901234567890123456789012345678901e-1',
    '1e-99999999999999999999',
    'null',
    'true',
    '[]',
    '[500001]',
    '{}',
    '""',
    '" "',
    '" 500001"',
    '"500001 "',
    '"500001\\n"',
    '"+500001"',
    '"1.0"',
    '"1e3"',
    '"0x10"',
    '"-"',
    '"--5"',
    '"abc"',
    '"5_0"',
    '"5\\u0000"',
    '"٥"',
    '"__proto__"',
  ])('is rejected if a registry id is not an integer: %s', async (element) => {
    expectRejected(await registries(element), NOT_INTEGER);
    expectRejected(await registries('500001', element, '"500002"'), NOT_INTEGER);
    expectRejected(await registries(element, '500001'), NOT_INTEGER);
  });

  it('accepts integers up to 2^53-1, exactly', async () => {
    expect(idsOf(await registries('900719925474099.1e1', '-9007199254740991'))).toEqual(['exact', 'least']);
    expect(idsOf(await registries('9007199254740991'))).toEqual(['exact']);
    expect(idsOf(await registries('"9007199254740991"', '"-9007199254740991"'))).toEqual(['exact', 'least']);
  });

  it.each(
    ['500001.0', '500001.000', '5.00001e5', '5.00001E+05', '50000100e-2', '500001e0', '500001e-0'].map(
      titled,
    ),
  )('accepts an integer in any notation: %s', async (_, element) => {
    expect(idsOf(await registries(element))).toEqual(['h1']);
    expect(idsOf(await registries('"500002"', element, '500001'))).toEqual(['h2', 'h1']);
  });

  it('accepts larger numbers, which match nothing', async () => {
    expect(idsOf(await registries('9007199254740992', '"9007199254740993"'))).toEqual([]);
    expect(idsOf(await registries('9223372036854775807', '"-9223372036854775808"'))).toEqual([]);
    expect(idsOf(await registries('9223372036854775808', '9223372036854775900'))).toEqual([]);
  });

  it.each(
    [
      '123456789012345678901234567890',
      '-123456789012345678901234567890',
      '"123456789012345678901234567890"',
      // 2^64 more than an existing id
      '18446744073710051617',
      '"18446744073710051617"',
      `"${'9'.repeat(5_000)}"`,
      '1e400',
      '-1.5e99999999999999999999',
    ].map(titled),
  )('accepts an integer that no hotel can have: %s', async (_, element) => {
    expect(idsOf(await registries(element))).toEqual([]);
    expect(idsOf(await registries('500001', element, '500002'))).toEqual(['h1', 'h2']);
  });

  it.each([
    ['"__proto__"', 'proto'],
    ['"constructor"', 'constructor'],
    ['"\\u005f_proto__"', 'proto'],
    ['"\\uFFFD"', 'replacement'],
    ['"\ufffd"', 'replacement'],
    ['"\\ud83d\\ude00\\"\\\\\\n"', 'emoji'],
    ['"😀\\"\\\\\\u000a"', 'emoji'],
    ['"500001"', 'digits'],
    ['"CH\\u002d1"', 'h1'],
  ])('accepts any text: %s', async (element, id) => {
    for (let round = 0; round < 2; round++) {
      expect(idsOf(await byChannel(`{"channel_ids":[${element}]}`))).toEqual([id]);
      expect(idsOf(await byChannel(`{"channel_ids":["CH-5",${element},"nobody"]}`))).toEqual(['h5', id]);
    }
  });

  it.each([
    '"\\ud800"',
    '"\\udc00"',
    '"\\ud800\\ud800"',
    '"\\ude00\\ud83d"',
    '"a\\ud800\\ud800"',
    '"CH-1\\ud800"',
    '"\\u0000"',
    '"CH-1\\u0000"',
    '"toString"',
    '"ch-1"',
    '"CH-1 "',
    '"CH-01"',
    '""',
  ])('accepts a text without a hotel, which matches none: %s', async (element) => {
    expect(idsOf(await byChannel(`{"channel_ids":[${element}]}`))).toEqual([]);
    expect(idsOf(await byChannel(`{"channel_ids":["CH-5",${element},"CH-6"]}`))).toEqual(['h5', 'h6']);
  });

  it('accepts a text as long as the body allows', async () => {
    expect(idsOf(await channels('x'.repeat(300_000), 'CH-1', '😀'.repeat(100_000)))).toEqual(['h1']);
  });

  it('that is not UTF-8 does not match the hotel with the replacement character', async () => {
    for (const bytes of ['ff', 'c0af', 'eda080', 'f5808080', 'e4b8']) {
      const body = Buffer.concat([
        Buffer.from('{"channel_ids":["'),
        Buffer.from(bytes, 'hex'),
        Buffer.from('"]}'),
      ]);
      const response = await byChannel(body);
      if (response.status === 400) expectRejected(response, NOT_JSON);
      else expect(idsOf(response)).toEqual([]);
    }
  });

  it('accepts further members and whitespace', async () => {
    const body = ' {\r\n\t"a": [1, {"b": null}], "channel_ids" : [ "CH-1" , "CH-2" ] , "__proto__": {} }\n ';
    expect(idsOf(await byChannel(body))).toEqual(['h1', 'h2']);
    const numbers =
      ' {\r\n\t"a": [1, {"b": null}], "registry_ids" : [ 500001 ,\n"500002" ] , "__proto__": {} }\n ';
    expect(idsOf(await byRegistry(numbers))).toEqual(['h1', 'h2']);
  });

  it('accepts escapes in the name of the array', async () => {
    expect(idsOf(await byChannel('{"channel\\u005fids":["CH-1"]}'))).toEqual(['h1']);
    expect(idsOf(await byRegistry('{"registry\\u005fids":[500001]}'))).toEqual(['h1']);
  });

  it('ignores the name of the array inside texts and nested objects', async () => {
    expect(
      idsOf(
        await byChannel(
          '{"a":{"channel_ids":["CH-2"]},"b":"\\"channel_ids\\":[\\"CH-3\\"]","channel_ids":["CH-1"]}',
        ),
      ),
    ).toEqual(['h1']);
    expect(
      idsOf(
        await byRegistry(
          '{"a":{"registry_ids":[1.5]},"b":"\\"registry_ids\\":[1.5]","registry_ids":[500001]}',
        ),
      ),
    ).toEqual(['h1']);
    expectRejected(await byRegistry('{"a":{"registry_ids":[500001]},"b":"registry_ids"}'), NO_REGISTRY_IDS);
  });

  it.each([
    'application/json; charset=utf-8',
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'nonsense',
    '',
  ])('is accepted with any content type: %j', async (type) => {
    const headers = { 'content-type': type };
    expect(idsOf(await byChannel('{"channel_ids":["CH-1"]}', { headers }))).toEqual(['h1']);
  });
});

describe('the size of a body', () => {
  /** Returns a valid body of this many bytes. */
  const padded = (bytes: number) => {
    const start = '{"channel_ids":["CH-1"';
    const end = ']}';
    return Buffer.from(`${start}${' '.repeat(bytes - start.length - end.length)}${end}`);
  };

  it.each([
    ['with its length announced', (body: Buffer) => send(body, { 'content-length': body.length })],
    ['in chunks', (body: Buffer) => send(body, { 'transfer-encoding': 'chunked' })],
  ])('is at most 1 MiB, to the byte, %s', async (_, send) => {
    const good = await send(padded(MIB));
    expect([good.status, JSON.parse(good.text)[0].id]).toEqual([200, 'h1']);
    expectRejected(await send(padded(MIB + 1)), /1 MiB/, 413);
    expectRejected(await send(padded(5 * MIB)), /1 MiB/, 413);
    expect((await channels('CH-1')).status).toBe(200);
  });

  it('is rejected by its content-length, before it is sent', async () => {
    const head = `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\nContent-Length: ${MIB + 1}\r\n\r\n{`;
    expectRejected(await writeParts([Buffer.from(head)]), /1 MiB/, 413);
  });
});

describe('a body that arrives slowly', () => {
  it('is read byte by byte', async () => {
    const body = Buffer.from('{"channel_ids":["CH-1","\\ud83d\\ude00\\"\\\\\\n","😀\\"\\\\\\n","CH-2"]}');
    const head = `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\nContent-Length: ${body.length}\r\n\r\n`;
    const answer = await writeParts([Buffer.from(head), ...[...body].map((byte) => Buffer.from([byte]))]);
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).map(({ id }: { id: string }) => id)).toEqual(['h1', 'emoji', 'h2']);
  });

  it('is read in chunks of one byte', async () => {
    const body = Buffer.from('{"registry_ids":[500001,"0500002"]}');
    const head = `POST /hotels/registry/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const chunks = [...body].map((byte) =>
      Buffer.concat([Buffer.from('1\r\n'), Buffer.from([byte]), Buffer.from('\r\n')]),
    );
    const answer = await writeParts([Buffer.from(head), ...chunks, Buffer.from('0\r\n\r\n')]);
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).map(({ id }: { id: string }) => id)).toEqual(['h1', 'h2']);
  });
});

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});

interface Reply {
  status: number;
  text: string;
}

/** A response counts even if the server closes before it has read everything. */
function send(body: Buffer, headers: Record<string, string | number>): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  // keep-alive, because a connection closed with unread bytes is reset and the response may be lost
  const agent = new Agent({ keepAlive: true });
  const outgoing = request({
    host: '127.0.0.1',
    port: service.port,
    path: '/hotels/channel/batch',
    method: 'POST',
    headers: { 'x-api-key': service.fullKey, ...headers },
    agent,
  });
  outgoing.on('response', (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk) => chunks.push(chunk));
    response.on('error', reject);
    response.on('end', () =>
      resolve({ status: response.statusCode!, text: Buffer.concat(chunks).toString() }),
    );
  });
  // after a response the promise is settled, and this has no effect
  outgoing.on('error', reject);
  for (let at = 0; at < body.length; at += 60_000) outgoing.write(body.subarray(at, at + 60_000));
  outgoing.end();
  return promise.finally(() => agent.destroy());
}

/** Writes each part in a separate segment and reads one response. */
async function writeParts(parts: Buffer[]): Promise<Reply> {
  const connection = new RawConnection(service.port);
  for (const part of parts) {
    await connection.write(part);
    await nextIteration();
  }
  const response = await connection.read();
  if (!response) throw new Error(`closed after ${connection.unread}`);
  connection.close();
  return { status: response.status, text: response.body };
}
