import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Answer } from '../support/client.ts';
import { type Service, startService } from '../support/service.ts';
import { within } from '../support/stall-detector.ts';

/** A case with as much of it as a title holds. */
const titled = (text: string): [title: string, text: string] => [text.slice(0, 40), text];

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
const byRegistry = (body: string | Buffer | object, options = {}) =>
  service.post('/hotels/registry/batch', body, options);
const channels = (...ids: unknown[]) => byChannel({ channel_ids: ids });
/** Takes the elements as JSON text, so that 1.0 and long numbers stay what they are. */
const registries = (...elements: string[]) => byRegistry(`{"registry_ids":[${elements}]}`);

function idsOf(answer: Answer): string[] {
  expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/json']);
  return answer.json().map(({ id }: { id: string }) => id);
}

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
  it('answers in the order asked, from the database and from caches', async () => {
    for (let round = 0; round < 3; round++) {
      expect(idsOf(await channels('CH-7', 'CH-3', 'CH-9', 'CH-1'))).toEqual(['h7', 'h3', 'h9', 'h1']);
      expect(idsOf(await registries('500017', '500013', '"500019"', '500011'))).toEqual([
        'h17',
        'h13',
        'h19',
        'h11',
      ]);
    }
    // some known by now and some not
    expect(idsOf(await channels('CH-20', 'CH-3', 'CH-21', 'CH-1'))).toEqual(['h20', 'h3', 'h21', 'h1']);
  });

  it('answers an id that is asked twice once, at its first place', async () => {
    for (let round = 0; round < 2; round++) {
      expect(idsOf(await channels('CH-2', 'CH-1', 'CH-2', 'CH-3', 'CH-1'))).toEqual(['h2', 'h1', 'h3']);
      expect(idsOf(await registries('500002', '500001', '500002'))).toEqual(['h2', 'h1']);
      expect(idsOf(await channels('CH-nobody', 'CH-1', 'CH-nobody'))).toEqual(['h1']);
    }
  });

  it('knows an integer by its value, however it is written', async () => {
    const answer = await registries(
      '500001',
      '"0500001"',
      '"500001"',
      '500002',
      '"000000000000000000000500001"',
    );
    expect(idsOf(answer)).toEqual(['h1', 'h2']);
    expect(idsOf(await registries('"0500003"', '500003'))).toEqual(['h3']);
    expect(idsOf(await registries('0', '-0', '"-0"', '"00"', '"-00"'))).toEqual(['zero']);
    expect(idsOf(await registries('-5', '"-5"', '"-05"'))).toEqual(['minus']);
  });

  it('leaves out ids that no hotel carries', async () => {
    for (let round = 0; round < 2; round++) {
      expect(idsOf(await channels('nobody', 'CH-1', 'h1', ''))).toEqual(['h1']);
      expect(idsOf(await registries('1', '500001', '-500001'))).toEqual(['h1']);
      expect(idsOf(await channels('nobody', 'nothing'))).toEqual([]);
    }
  });

  it('of nothing is an empty array', async () => {
    expect((await channels()).text).toBe('[]');
    expect((await registries()).text).toBe('[]');
  });

  it('may hold 1000 ids', async () => {
    // 7 and 1000 have no common divisor: every place once, in an order far from the table's
    const places = Array.from({ length: 1_000 }, (_, i) => (i * 7) % 1_000);
    const expected = places.map((place) => `h${place}`);
    for (let round = 0; round < 2; round++) {
      expect(idsOf(await channels(...places.map((place) => `CH-${place}`)))).toEqual(expected);
      expect(idsOf(await registries(...places.map((place) => String(500_000 + place))))).toEqual(expected);
    }
    expect(idsOf(await channels(...new Array(1_000).fill('CH-1')))).toEqual(['h1']);
  });

  it('of 1001 ids is refused, counted before duplicates are dropped', async () => {
    const numbers = Array.from({ length: 1_001 }, (_, i) => i);
    expectRejected(await channels(...numbers.map((i) => `CH-${i}`)), /channel_ids.*1000/);
    expectRejected(await channels(...numbers.map(() => 'CH-1')), /channel_ids.*1000/);
    expectRejected(await channels(...numbers.map(() => 'nobody')), /channel_ids.*1000/);
    expectRejected(await registries(...numbers.map((i) => String(500_000 + i))), /registry_ids.*1000/);
    expectRejected(await registries(...numbers.map(() => '500001')), /registry_ids.*1000/);
    expectRejected(await channels(...new Array(100_000).fill('CH-1')), /channel_ids.*1000/);
  });

  it('shows a new hotel within a second, though it was asked for in vain', async () => {
    expect(idsOf(await channels('CH-new', 'CH-1'))).toEqual(['h1']);
    expect(idsOf(await registries('700001', '500001'))).toEqual(['h1']);
    await service.insert({ id: 'new', channel_id: 'CH-new', registry_id: 700_001 });
    await within(
      1_000,
      async () => idsOf(await channels('CH-new', 'CH-1')),
      (found) => expect(found).toEqual(['new', 'h1']),
    );
    await within(
      1_000,
      async () => idsOf(await registries('700001', '500001')),
      (found) => expect(found).toEqual(['new', 'h1']),
    );
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
  ])('that is no JSON is refused: %s', async (_, body) => {
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
  ])('that is no JSON is refused: registry_ids with %s, %s', async (element) => {
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
  )('without the array is refused: %s', async (_, body) => {
    expectRejected(await byChannel(body), NO_CHANNEL_IDS);
    expectRejected(await byRegistry(body.replace('channel_ids', 'registry_ids')), NO_REGISTRY_IDS);
  });

  it("with the other operation's array is refused", async () => {
    expectRejected(await byChannel({ registry_ids: [500001] }), NO_CHANNEL_IDS);
    expectRejected(await byRegistry({ channel_ids: ['CH-1'] }), NO_REGISTRY_IDS);
  });

  it.each(
    ['1', 'null', 'true', '[]', '["CH-1"]', '{}', '1.5', `${'['.repeat(400_000)}${']'.repeat(400_000)}`].map(
      titled,
    ),
  )('with a channel id that is no string is refused: %s', async (_, element) => {
    expectRejected(await byChannel(`{"channel_ids":[${element}]}`), /channel_ids/);
    expectRejected(await byChannel(`{"channel_ids":["CH-1",${element},"CH-2"]}`), /channel_ids/);
  });

  it.each([
    '1.5',
    '500001.5',
    '5000015e-1',
    '1e-3',
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
  ])('with a registry id that is no integer is refused: %s', async (element) => {
    expectRejected(await registries(element), NOT_INTEGER);
    expectRejected(await registries('500001', element, '"500002"'), NOT_INTEGER);
    expectRejected(await registries(element, '500001'), NOT_INTEGER);
  });

  it('may hold integers up to 2^53-1, exactly', async () => {
    expect(idsOf(await registries('9007199254740991', '-9007199254740991'))).toEqual(['exact', 'least']);
    expect(idsOf(await registries('"9007199254740991"', '"-9007199254740991"'))).toEqual(['exact', 'least']);
  });

  it.each(
    ['500001.0', '500001.000', '5.00001e5', '5.00001E+05', '50000100e-2', '500001e0', '500001e-0'].map(
      titled,
    ),
  )('may hold an integer however the number is written: %s', async (_, element) => {
    expect(idsOf(await registries(element))).toEqual(['h1']);
    expect(idsOf(await registries('"500002"', element, '500001'))).toEqual(['h2', 'h1']);
  });

  it('may hold larger numbers, which match nothing', async () => {
    expect(idsOf(await registries('9007199254740992', '"9007199254740993"'))).toEqual([]);
    expect(idsOf(await registries('9223372036854775807', '"-9223372036854775808"'))).toEqual([]);
    expect(idsOf(await registries('9223372036854775808', '9223372036854775900'))).toEqual([]);
  });

  it.each(
    [
      '123456789012345678901234567890',
      '-123456789012345678901234567890',
      '"123456789012345678901234567890"',
      // 2^64 more than an id that is carried
      '18446744073710051617',
      '"18446744073710051617"',
      `"${'9'.repeat(5_000)}"`,
      '1e400',
      '-1.5e99999999999999999999',
    ].map(titled),
  )('may hold an integer that no hotel can carry: %s', async (_, element) => {
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
  ])('may hold any text: %s', async (element, id) => {
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
  ])('may hold a text that no hotel carries, and that matches none: %s', async (element) => {
    expect(idsOf(await byChannel(`{"channel_ids":[${element}]}`))).toEqual([]);
    expect(idsOf(await byChannel(`{"channel_ids":["CH-5",${element},"CH-6"]}`))).toEqual(['h5', 'h6']);
  });

  it('may hold a text as long as the body allows', async () => {
    expect(idsOf(await channels('x'.repeat(300_000), 'CH-1', '😀'.repeat(100_000)))).toEqual(['h1']);
  });

  it('that is no UTF-8 does not match the hotel of the replacement character', async () => {
    for (const bytes of ['ff', 'c0af', 'eda080', 'f5808080', 'e4b8']) {
      const body = Buffer.concat([
        Buffer.from('{"channel_ids":["'),
        Buffer.from(bytes, 'hex'),
        Buffer.from('"]}'),
      ]);
      const answer = await byChannel(body);
      if (answer.status === 400) expectRejected(answer, NOT_JSON);
      else expect(idsOf(answer)).toEqual([]);
    }
  });

  it('may hold more than the array, and blanks', async () => {
    const body = ' {\r\n\t"a": [1, {"b": null}], "channel_ids" : [ "CH-1" , "CH-2" ] , "__proto__": {} }\n ';
    expect(idsOf(await byChannel(body))).toEqual(['h1', 'h2']);
    const numbers =
      ' {\r\n\t"a": [1, {"b": null}], "registry_ids" : [ 500001 ,\n"500002" ] , "__proto__": {} }\n ';
    expect(idsOf(await byRegistry(numbers))).toEqual(['h1', 'h2']);
  });

  it('may name the array with escapes', async () => {
    expect(idsOf(await byChannel('{"channel\\u005fids":["CH-1"]}'))).toEqual(['h1']);
    expect(idsOf(await byRegistry('{"registry\\u005fids":[500001]}'))).toEqual(['h1']);
  });

  it('is not confused by the name of the array within texts and other objects', async () => {
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
  ])('may have any content type: %j', async (type) => {
    const headers = { 'content-type': type };
    expect(idsOf(await byChannel('{"channel_ids":["CH-1"]}', { headers }))).toEqual(['h1']);
  });
});

describe('the size of a body', () => {
  /** A good body of this many bytes. */
  const padded = (bytes: number) => {
    const start = '{"channel_ids":["CH-1"';
    const end = ']}';
    return Buffer.from(`${start}${' '.repeat(bytes - start.length - end.length)}${end}`);
  };

  it.each([
    ['with its length announced', (body: Buffer) => sendAnnounced(body)],
    ['in chunks', (body: Buffer) => sendChunked(body)],
  ])('may be 1 MiB and not a byte more, %s', async (_, send) => {
    const good = await send(padded(MIB));
    expect([good.status, JSON.parse(good.text)[0].id]).toEqual([200, 'h1']);
    expectRejected(await send(padded(MIB + 1)), /1 MiB/, 413);
    expectRejected(await send(padded(5 * MIB)), /1 MiB/, 413);
    expect((await channels('CH-1')).status).toBe(200);
  });

  it('is refused by its announcement, before it is sent', async () => {
    const head = `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\nContent-Length: ${MIB + 1}\r\n\r\n{`;
    expectRejected(await trickle([Buffer.from(head)]), /1 MiB/, 413);
  });
});

describe('a body that trickles', () => {
  it('byte by byte is read like any other', async () => {
    const body = Buffer.from('{"channel_ids":["CH-1","\\ud83d\\ude00\\"\\\\\\n","😀\\"\\\\\\n","CH-2"]}');
    const head = `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\nContent-Length: ${body.length}\r\n\r\n`;
    const answer = await trickle([Buffer.from(head), ...[...body].map((byte) => Buffer.from([byte]))]);
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).map(({ id }: { id: string }) => id)).toEqual(['h1', 'emoji', 'h2']);
  });

  it('in chunks of one byte is read like any other', async () => {
    const body = Buffer.from('{"registry_ids":[500001,"0500002"]}');
    const head = `POST /hotels/registry/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const chunks = [...body].map((byte) =>
      Buffer.concat([Buffer.from('1\r\n'), Buffer.from([byte]), Buffer.from('\r\n')]),
    );
    const answer = await trickle([Buffer.from(head), ...chunks, Buffer.from('0\r\n\r\n')]);
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).map(({ id }: { id: string }) => id)).toEqual(['h1', 'h2']);
  });
});

it('nothing of it was an error', () => {
  const isError = (line: string) => ['error', 'fatal'].includes(JSON.parse(line).level);
  expect(service.logs().filter(isError)).toEqual([]);
});

interface Reply {
  status: number;
  text: string;
}

/** An answer counts even when the server closed before it had read all that was sent. */
function sendAnnounced(body: Buffer): Promise<Reply> {
  return send(body, { 'content-length': body.length });
}

function sendChunked(body: Buffer): Promise<Reply> {
  return send(body, { 'transfer-encoding': 'chunked' });
}

function send(body: Buffer, headers: Record<string, string | number>): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  // the connection is to stay: one that is closed with a body under way is reset, and the answer may be lost
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
  // after a response the promise has settled and this changes nothing
  outgoing.on('error', reject);
  for (let at = 0; at < body.length; at += 60_000) outgoing.write(body.subarray(at, at + 60_000));
  outgoing.end();
  return promise.finally(() => agent.destroy());
}

/** Writes each part in a segment of its own and reads one answer with a content length. */
async function trickle(parts: Buffer[]): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const socket = connect({ port: service.port, host: '127.0.0.1', noDelay: true });
  let received = Buffer.alloc(0);
  socket.on('error', reject);
  socket.on('close', () => reject(new Error(`closed after ${received}`)));
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    const end = received.indexOf('\r\n\r\n');
    if (end < 0) return;
    const head = received.subarray(0, end).toString();
    const length = Number(/content-length: *(\d+)/i.exec(head)?.[1]);
    const body = received.subarray(end + 4);
    if (body.length < length) return;
    resolve({ status: Number(head.slice(9, 12)), text: body.toString() });
    socket.destroy();
  });
  for (const part of parts) {
    await new Promise<void>((written) => socket.write(part, () => written()));
    await nextTurn();
  }
  return promise;
}
