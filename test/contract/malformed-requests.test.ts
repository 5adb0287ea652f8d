import { describe, expect, it } from 'vitest';
import { randomFrom } from '../../bench/draws.ts';
import { read } from '../documents/files.ts';
import { AllWorkers } from '../support/all-workers.ts';
import { errorsIn } from '../support/log-lines.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { startService } from '../support/service.ts';

const SEED = 20_260_401;
const REQUESTS = 1_000;
const AT_ONCE = 50;
/** A connection silent for this long is checked with a probe of its worker. */
const SILENCE_MS = 100;

const hotels = Array.from({ length: 200 }, (_, i) => ({ id: `x${i}`, description: 'x'.repeat(500) }));
const h1 = { id: 'h1', channel_id: 'CH-1', registry_id: 500001 };
const service = await startService({ workers: 2, hotels: [h1, ...hotels] });
const allWorkers = await AllWorkers.of(service);
const pidsBefore = (await service.workerPids()).sort();

let probed = 0;
/** the running probe and the one after it */
let probing: Promise<unknown> = Promise.resolve();
let nextProbe: Promise<unknown> | undefined;

/** Resolves when each worker has answered a later request, which requires PostgreSQL. */
function probe(): Promise<unknown> {
  nextProbe ??= probing.then(() => {
    nextProbe = undefined;
    probing = allWorkers.get(`/hotels/probe-${++probed}`);
    return probing;
  });
  return nextProbe;
}

/** Writes a request, each character as a byte, and reads until the connection closes, or is silent although its worker had the time to respond. */
async function send(request: string, silenceMs = SILENCE_MS): Promise<{ text: string; closed: boolean }> {
  const connection = new RawConnection(service.port);
  void connection.write(request);
  for (let received = -1; !connection.isClosed && connection.unread.length > received; ) {
    await connection.silence(silenceMs);
    received = connection.unread.length;
    // the first bytes of a connection are read one iteration after it is accepted
    for (let i = 0; i < 2 && !connection.isClosed; i++) await probe();
  }
  const closed = connection.isClosed;
  connection.close();
  return { text: connection.unread, closed };
}

const key = `x-api-key: ${service.fullKey}\r\n`;
const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${key}${headers}\r\n`;
const post = (headers: string, body: string) =>
  `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\n${key}${headers}\r\n${body}`;
const BODY = '{"channel_ids":["CH-1"]}';
const length = `Content-Length: ${BODY.length}\r\n`;
const chunked = 'Transfer-Encoding: chunked\r\n';
const chunk = `${BODY.length.toString(16)}\r\n${BODY}\r\n`;
const whole = `${chunk}0\r\n\r\n`;
const inChunks = post('Transfer-Encoding: Chunked\r\n', whole);
const toHost = (host: string) => get('/hotels/h1').replace('Host: a', `Host:${host}`);

/** Requests with a known fault, by what is received for them. */
const wrong = {
  /**
   * 200: correct requests, and two that the HTTP library should reject. The latter are harmless here: they concern only
   * the connection of their client, who could have sent the same in two requests. Proxies, where clients share
   * connections, reject or rewrite them (test/hostile/parser-gaps.test.ts).
   */
  answered: {
    'chunks with bare line feeds': post(chunked, `18\n${BODY}\n0\n\n`),
    'a header without a name': get('/hotels/h1', ': b\r\n'),
    'a GET of length 0': get('/hotels/h1', 'Content-Length: 0\r\n'),
    'ninety-eight headers': get('/hotels/h1', 'x: y\r\n'.repeat(96)),
    'an upgrade': get(
      '/hotels/h1',
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n',
    ),
    'an expectation': post(`${length}Expect: 100-continue\r\n`, BODY),
    'a query of nothing but marks': get(`/hotels?${'&=?'.repeat(300)}`),
  },
  /** If two readers could find different ends, the response is 400 and the connection closes. */
  closed: {
    'two lengths that differ': post(`${length}Content-Length: 3\r\n`, BODY),
    'two lengths, the shorter first': post(`Content-Length: 3\r\n${length}`, BODY),
    'two lengths, both right': post(length + length, BODY),
    'an empty framing and a length': post(`Transfer-Encoding: \r\n${length}`, BODY),
    'two framings': post(chunked + chunked, whole),
    'another coding before the chunks': post('Transfer-Encoding: gzip, chunked\r\n', whole),
    'a length behind a header without a name': post(`: b\r\n${length}`, BODY),
    'two lengths to GET, the first of 0': `${get('/hotels/h1', 'Content-Length: 0\r\nContent-Length: 5\r\n')}hello`,
    'an empty length to GET': get('/hotels/h1', 'Content-Length:\r\n'),
    'two lengths to GET, the first empty': `${get('/hotels/h1', 'Content-Length:\r\nContent-Length: 5\r\n')}hello`,
    'two framings to GET, the first empty': get('/hotels/h1', `Transfer-Encoding:\r\n${chunked}`) + chunk,
    'two framings to a page, the first empty': get('/docs', `Transfer-Encoding:\r\n${chunked}`) + chunk,
    'two lengths in one': post(`Content-Length: ${BODY.length}, 3\r\n`, BODY),
    'a length below zero': post('Content-Length: -1\r\n', BODY),
    'a length with a plus': post(`Content-Length: +${BODY.length}\r\n`, BODY),
    'a length in hexadecimal': post('Content-Length: 0x18\r\n', BODY),
    'an empty length': post('Content-Length: \r\n', BODY),
    'no length': post('', BODY),
    'both framings': post(length + chunked, chunk),
    'both framings, the length last': post(chunked + length, chunk),
    'both framings, a length of 0': post(`Content-Length: 0\r\n${chunked}`, whole),
    'an unknown framing': post('Transfer-Encoding: gzip\r\n', BODY),
    'a non-numeric chunk size': post(chunked, 'zz\r\nx\r\n0\r\n\r\n'),
    'a chunk size beyond 64 bits': post(chunked, 'fffffffffffffffff\r\nx\r\n0\r\n\r\n'),
    'a chunk that is longer than its size': post(chunked, `3\r\n${BODY}\r\n0\r\n\r\n`),
    'a request within a body':
      get('/hotels/h1', `Content-Length: ${get('/hotels/x1').length}\r\n`) + get('/hotels/x1'),
    // src/http/received-request.test.ts has every form of a host
    'two hosts': get('/hotels/h1', 'Host: b\r\n'),
    'two hosts to POST': post(`${length}Host: a\r\n`, BODY),
    'an empty host': toHost(''),
    'an empty host to POST': post(length, BODY).replace('Host: a', 'Host: '),
    'a host of a port alone': toHost(':80'),
    'a host with a blank': toHost('a b'),
  },
  /** Any other response, or none. */
  'not answered': {
    'a length beyond 64 bits': post('Content-Length: 18446744073709551640\r\n', BODY),
    'a length of 4 GiB': post('Content-Length: 4294967320\r\n', BODY),
    'a framing of chunks and more': post('Transfer-Encoding: chunked, gzip\r\n', chunk),
    'a framing of xchunked': post('Transfer-Encoding: xchunked\r\n', chunk),
    'a chunk size of all bits': post(chunked, 'ffffffffffffffff\r\nx\r\n0\r\n\r\n'),
    'a chunk that is shorter than its size': post(chunked, `ff\r\n${BODY}\r\n0\r\n\r\n`),
    'chunks with trailers': post(chunked, `${chunk}0\r\nx-api-key: nonsense\r\n\r\n`),
    'a carriage return in a header value': get('/hotels/h1', 'x-request-id: a\rb\r\n'),
    'a request behind a body that was not announced': post('Content-Length: 0\r\n', BODY) + get('/hotels/h1'),
  },
};

/** Requests by the cause, as docs/errors.md states it, for which the HTTP library answers them, or does not. */
const ofLibrary: Record<string, Record<string, string>> = {
  'other headers, but no `Host`': { 'no host': `GET /hotels/h1 HTTP/1.1\r\n${key}\r\n` },
  'a `Content-Length` that is neither empty nor a number': {
    'a length of letters': post('Content-Length: many\r\n', BODY),
    'a length that ends in letters': post('Content-Length: 1x\r\n', BODY),
  },
  'a chunk whose size is no number': { 'a chunk size of letters': post(chunked, 'zz\r\nx\r\n0\r\n\r\n') },
  'more than 4 KiB of request line and headers, or more than 98 headers': {
    'headers over 4 KiB': get('/hotels/h1', `x-long: ${'a'.repeat(5_000)}\r\n`),
    'a target over 4 KiB': get(`/${'a'.repeat(5_000)}`),
    'ninety-nine headers': get('/hotels/h1', 'x: y\r\n'.repeat(97)),
  },
  'HTTP/1.0, HTTP/2 without an upgrade, and TLS at the port of plain HTTP': {
    'HTTP/1.0': `GET /hotels/h1 HTTP/1.0\r\nHost: a\r\n${key}\r\n`,
    'HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    TLS: '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03',
  },
  'a target in absolute form (`GET http://host/hotels`), as for a forward proxy, or without a leading `/`': {
    'the absolute form': get('http://a/hotels/h1'),
    'the authority form': 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n',
    'a path of a star': 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n',
    'a path without a slash': get('hotels/h1'),
  },
  'a control character or a blank in the target': {
    'a control character in the path': get('/hotels\x01'),
    'a NUL in the path': get('/hotels/h\x001'),
    'a tab before the path': get('/hotels/h1').replaceAll(' /', '\t/'),
    'a blank in the path': get('/hotels/h1 x'),
  },
  'a request line that ends without a carriage return': {
    'a request line with a bare line feed': get('/hotels/h1').replace('\r\n', '\n'),
    'bare line feeds': get('/hotels/h1').replaceAll('\r\n', '\n'),
  },
  'no header at all': { 'a request line alone': 'GET /hotels/h1 HTTP/1.1\r\n\r\n' },
  'a control character in a header, or a character that no header name has in its name': {
    'a NUL in a header value': get('/hotels/h1', 'x-request-id: a\0b\r\n'),
    'a control character in a header value': get('/hotels/h1', 'x-request-id: a\x01b\r\n'),
    'a NUL in the host': toHost('a\0b'),
    'a NUL in a header name': get('/hotels/h1', 'x\0a: b\r\n'),
    'a header with a blank in its name': get('/hotels/h1', 'x a: b\r\n'),
    'a header with a blank before the colon': get('/hotels/h1', 'x-a : b\r\n'),
    'a framing with a blank before the colon': post('Transfer-Encoding : chunked\r\n', '0\r\n\r\n'),
  },
  'a header line without a colon, with a blank before it, or without a carriage return': {
    'a header without a colon': get('/hotels/h1', 'nonsense\r\n'),
    'a header behind a blank': get('/hotels/h1', ' x-a: b\r\n'),
    'a header with a bare line feed': get('/hotels/h1', 'x-a: b\n'),
  },
  'a header over two lines': {
    'a folded header of the API': `GET /hotels/h1 HTTP/1.1\r\nHost: a\r\nx-api-key:\r\n ${service.fullKey}\r\n\r\n`,
    'a folded header': get('/hotels/h1', 'x-a: b\r\n c\r\n'),
  },
  'an empty line before the request': {
    'a request behind an empty line': `\r\n${get('/hotels/h1')}`,
    'nothing but line ends': '\r\n'.repeat(1_000),
  },
};

/** Returns the statuses of the HTTP library in docs/errors.md by cause; `none`: the connection closes without a response. */
function documentedStatuses(): Record<string, string> {
  const text = read('docs/errors.md');
  const rows = text.slice(text.indexOf('| Status | Causes |')).matchAll(/^\| (\d{3}|none).* \| (.*) \|$/gm);
  return Object.fromEntries(
    [...rows].flatMap(([, status, causes]) => causes!.split('; ').map((cause) => [cause, status!])),
  );
}

/** Correct requests, for mutations. */
const right = [
  get('/hotels?limit=5&offset=3'),
  get('/hotels/h1'),
  get('/hotels/channel/CH-1', 'If-None-Match: "a", W/"b"\r\nAccept-Encoding: gzip;q=0.5, br\r\n'),
  get('/hotels/registry/500001'),
  post(length, BODY),
  inChunks,
  get('/hotels') + post(length, BODY) + get('/hotels?limit=100', 'Accept-Encoding: br\r\n'),
];

const TOKENS = [
  ...['\r\n', ...'\n\r\0 \t:%', '%00', '%zz', ...'\xff"{[],-0'],
  ...['9'.repeat(20), 'HTTP/1.1', '\r\n\r\n'],
];

/** Applies one to four changes: bytes replaced, removed, duplicated or inserted, or the end truncated. */
function mutated(request: string, random: () => number): string {
  let text = request;
  const upTo = (limit: number) => Math.floor(random() * limit);
  for (let changes = 1 + upTo(4); changes > 0; changes--) {
    const at = upTo(text.length);
    const until = at + 1 + upTo(8);
    const token = TOKENS[upTo(TOKENS.length)]!;
    const kinds = [
      () => text.slice(0, at) + String.fromCharCode(upTo(256)) + text.slice(at + 1),
      () => text.slice(0, at) + text.slice(until),
      () => text.slice(0, until) + text.slice(at),
      () => text.slice(0, at) + token + text.slice(at),
      () => text.slice(0, at) + token + text.slice(until),
      () => (random() < 0.3 ? text.slice(0, at) : text),
    ];
    text = kinds[upTo(kinds.length)]!();
  }
  return text;
}

/** Fails unless this is a possible response: one of the contract or of the HTTP library, never a failure. */
function expectNoFailure(sent: string, received: string): void {
  const said = `to ${JSON.stringify(sent.slice(0, 1_000))}: ${received.slice(0, 300)}`;
  if (received !== '') expect(received, said).toContain('HTTP/1.1 ');
  // 505 is the library's response to an unsupported version
  expect(received, said).not.toMatch(/HTTP\/1\.1 (?!505)[5-9]\d\d /);
}

async function expectWell(): Promise<void> {
  const good = await Promise.all(Array.from({ length: 12 }, () => service.get('/hotels/h1')));
  for (const response of good) expect([response.status, response.json().id]).toEqual([200, 'h1']);
  expect((await service.workerPids()).sort()).toEqual(pidsBefore);
}

describe('a malformed request', () => {
  it('of a known kind does not affect others', async () => {
    for (const [group, requests] of Object.entries(wrong)) {
      const answers = await Promise.all(Object.values(requests).map((request) => send(request)));
      for (const [i, [what, request]] of Object.entries(requests).entries()) {
        const { text, closed } = answers[i]!;
        expectNoFailure(`${what}: ${request}`, text);
        const said = `${what}: ${text.slice(0, 300)}`;
        if (group === 'answered') expect(text, said).toContain('HTTP/1.1 200 ');
        if (group === 'closed') expect([text.slice(0, 13), closed], said).toEqual(['HTTP/1.1 400 ', true]);
        if (group === 'not answered') expect(text, said).not.toContain('HTTP/1.1 200 ');
      }
      await expectWell();
    }
  });

  it('that the HTTP library answers gets the status that the documents state for its cause', async () => {
    const documented = documentedStatuses();
    const causes = Object.entries(ofLibrary);
    expect(causes.map(([cause]) => cause).sort()).toEqual(Object.keys(documented).sort());
    const received = causes.flatMap(([cause, requests]) =>
      Object.entries(requests).map(async ([what, request]) => {
        const { text } = await send(request);
        const [, status] = /^HTTP\/1\.1 (\d{3}) .*<h1>/s.exec(text) ?? [];
        const stated = documented[cause]!;
        const possible = stated === 'none' && process.env.TEST_IMAGE ? ['none', '400'] : [stated];
        expect.soft(possible, what).toContain(status ?? (text === '' ? 'none' : text.slice(0, 300)));
        expect.soft(text, what).not.toContain('x-error-code');
      }),
    );
    await Promise.all(received);
    await expectWell();
  });

  it.each([
    ['hotels', get('/hotels/h1')],
    ['batches', post(length, BODY)],
  ])('is none of ten %s at once: they are answered if one iteration suffices', async (_, request) => {
    const answers = async () => (await send(request.repeat(10))).text.split('HTTP/1.1 200 ').length - 1;
    await expect.poll(answers).toBe(10);
  });

  it('of any of a thousand kinds does not affect the workers', async () => {
    const random = randomFrom(SEED);
    const known = [wrong, ofLibrary].flatMap((of) => Object.values(of).flatMap(Object.values<string>));
    const requests = Array.from({ length: REQUESTS }, () => {
      const from = random() < 0.7 ? right : known;
      return mutated(from[Math.floor(random() * from.length)]!, random);
    });
    for (let start = 0; start < requests.length; start += AT_ONCE) {
      const some = requests.slice(start, start + AT_ONCE);
      const answers = await Promise.all(some.map((request) => send(request)));
      for (const [i, { text }] of answers.entries()) expectNoFailure(some[i]!, text);
    }
    await expectWell();
    expect(errorsIn(service.logs())).toEqual([]);
  });
});

const smuggled = get('/hotels/x7');
const withBody = (framing: string, body: string) => get('/hotels/h1', `${framing}\r\n`) + body;
const withLength = withBody(`Content-Length: ${smuggled.length}`, smuggled);
const NO_BODY = '{"error":"GET requests must not carry a body"}';

it.each<[what: string, request: string, status: number, body: string]>([
  ['a GET with a length', withLength, 400, NO_BODY],
  ['a HEAD with a length', withLength.replace('GET', 'HEAD'), 400, ''],
  ['a GET with chunks', withBody('Transfer-Encoding: chunked', '1\r\nx\r\n0\r\n\r\n'), 400, NO_BODY],
  ['a GET with endless chunks', withBody('Transfer-Encoding: chunked', '1\r\nx\r\n'), 400, NO_BODY],
  ['a GET with an unknown framing', withBody('Transfer-Encoding: x', '0\r\n\r\n'), 400, NO_BODY],
  ['a GET with a length that is not kept', withBody('Content-Length: 9', 'hello'), 400, NO_BODY],
  ['a batch in chunks', inChunks, 200, '[{"id":"h1",'],
  ['a batch in chunks without a key', inChunks.replace(key, ''), 401, '{"error":"Unauthorized"}'],
])('%s has one response, and its connection closes', async (_, request, status, body) => {
  const { text, closed } = await send(request, 2_000);
  const [head, content] = text.split('\r\n\r\n');
  expect(head).toContain(`HTTP/1.1 ${status} `);
  expect([content!.slice(0, body.length || 1), closed]).toEqual([body, true]);
  expect(text.split('HTTP/1.1 ')).toHaveLength(2);
  if (status === 401) return;
  expect(head).toMatch(/\r\nconnection: close(\r\n|$)/i);
  expect(head).toContain('\r\ncontent-type: application/json\r\n');
  if (status === 400) expect(head!.toLowerCase()).toContain(`\r\ncontent-length: ${NO_BODY.length}`);
});

it.each([
  ['in its trailers', ''],
  ['behind it', '\r\n'],
])(
  'a request %s has no response beside that of a batch in chunks, whose connection closes',
  async (_, end) => {
    const { text, closed } = await send(inChunks.slice(0, -2) + end + smuggled, 2_000);
    expect(closed).toBe(true);
    expect(text.split('HTTP/1.1 ').length - 1).toBeLessThanOrEqual(1);
  },
);
