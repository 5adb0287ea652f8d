import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { randomFrom } from '../../bench/draws.ts';
import { CODINGS, type Coding, DECODERS } from '../support/client.ts';
import { errorsIn } from '../support/log-lines.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { expectError, idsOf } from '../support/responses.ts';
import type { HotelRow } from '../support/rows.ts';
import { type Service, type ServiceOptions, startService } from '../support/service.ts';

const MIB = 1024 * 1024;
const HOTELS = 1_100;
/** Without channel ids, so that no other batch finds them without the scope. */
const ODD_IDS = ['é'.repeat(255), '😀', 'a b/c', '\n', '__proto__', 'constructor', 'x'.repeat(255), '0'];

const hotels: Partial<HotelRow>[] = [
  ...Array.from({ length: HOTELS }, (_, i) => ({
    id: `h${i}`,
    channel_id: i % 89 === 0 ? `kanal-ä-${i}` : `CH-${i}`,
    registry_id: 500_000 + i,
    description: 'Zimmer mit Aussicht. '.repeat(i % 101 === 0 ? 2_900 : i % 40),
  })),
  ...ODD_IDS.map((id) => ({ id })),
  // found by its id alone
  { id: 'other', channel_id: 'h1' },
  { id: 'proto', channel_id: '__proto__' },
  { id: 'of-object', channel_id: 'constructor' },
  { id: 'replacement', channel_id: '\ufffd' },
  { id: 'emoji', channel_id: '😀"\\\n' },
  { id: 'digits', channel_id: '500001' },
];

/** Batches of each kind, by the numbers of the hotels; those from `HOTELS` on have none. */
const KINDS: [path: string, bodyOf: (numbers: number[]) => object][] = [
  ['/hotels/batch', (numbers) => ({ ids: numbers.map((i) => `h${i}`) })],
  [
    '/hotels/channel/batch',
    (numbers) => ({ channel_ids: numbers.map((i) => (i < HOTELS ? hotels[i]!.channel_id : `CH-${i}`)) }),
  ],
  ['/hotels/registry/batch', (numbers) => ({ registry_ids: numbers.map((i) => 500_000 + i) })],
];

/** Large hotels, which are read and sent in several parts. */
const LARGE = 100;

/** Ways on which a batch may be answered, and the codings in which each sends large hotels, which do not depend on it. */
const WAYS: [way: string, options: ServiceOptions, codings: readonly Coding[]][] = [
  ['a small local cache', { env: { L1_MAX_BYTES: String(MIB) } }, ['zstd']],
  ['Redis alone', { env: { L1_MAX_BYTES: '0' } }, ['br']],
  ['PostgreSQL alone', { redis: false, env: { L1_MAX_BYTES: '0' } }, ['gzip']],
  // the last one goes on with the tests that need no particular way
  ['a local cache', {}, CODINGS],
];

let service: Service;

describe.each(WAYS)('a batch with %s', (_, options, codings) => {
  const byId = (ids: string[], key?: string) => service.post('/hotels/batch', { ids }, { key });

  beforeAll(async () => {
    await service?.stop();
    service = await startService({ ...options, hotels });
  });

  it('returns hotels in the requested order, each once, for any number of concurrent batches, cold and warm', async () => {
    const bodies = { full: new Map<string, string>(), narrow: new Map<string, string>() };
    for (const key of ['full', 'narrow'] as const)
      for (let offset = 0; offset < hotels.length; offset += 100)
        for (const hotel of (await service.get(`/hotels?limit=100&offset=${offset}`, { key })).json())
          bodies[key].set(hotel.id, JSON.stringify(hotel));
    const sendDrawn = async (seed: number) => {
      const draw = randomFrom(seed);
      const random = (below: number) => Math.floor(draw() * below);
      const count = seed % 5 === 0 ? 1_000 : random(30);
      const numbers = Array.from({ length: count }, () => random(HOTELS + 50));
      const [path, bodyOf] = KINDS[seed % 3]!;
      const key = seed % 3 === 2 || random(2) === 0 ? 'full' : 'narrow';
      const response = await service.post(path, bodyOf(numbers), { key });
      // a busy service may reject a batch
      if (response.status === 503) return;
      const expected = [...new Set(numbers)].filter((i) => i < HOTELS).map((i) => bodies[key].get(`h${i}`)!);
      expect(response.text === `[${expected.join()}]`, `the answer to seed ${seed}`).toBe(true);
    };
    for (let round = 0; round < 2; round++)
      await Promise.all(Array.from({ length: 30 }, (_, i) => sendDrawn(i + 1)));
  });

  it('returns hotels with any ids as singles do, and leaves others out', async () => {
    const asked = ['h7', 'nobody', 'h3', 'h7', '', 'h1', ...ODD_IDS, 'CH-1', 'nobody'];
    const found = ['h7', 'h3', 'h1', ...ODD_IDS];
    for (const key of ['full', 'narrow'])
      for (let round = 0; round < 2; round++) {
        const singles = await Promise.all(
          found.map(async (id) => (await service.get(`/hotels/${encodeURIComponent(id)}`, { key })).text),
        );
        expect((await byId(asked, key)).text).toBe(`[${singles.join()}]`);
      }
  });

  it('returns large hotels between others, whole, plain and compressed', async () => {
    const numbers = Array.from({ length: LARGE }, (_, i) => i);
    const described = (i: number) => createHash('md5').update(String(i)).digest('hex').repeat(1_800);
    await service.sql`insert into hotels (id, name, description, registry_id)
      select 'z' || i, 'Large', repeat(md5(i::text), 1800), 900000 + i from generate_series(0, ${LARGE}::int - 1) as i`;
    await expect.poll(async () => idsOf(await byId(['z99']))).toEqual(['z99']);
    const asked = numbers.flatMap((i) => [`z${i}`, `h${900 + (i % 200)}`, `none-${i}`]);
    const present = [...new Set(asked)].filter((id) => !id.startsWith('none'));
    for (const encoding of ['identity', ...codings] as const) {
      const decode = encoding === 'identity' ? (body: Buffer) => body : DECODERS[encoding];
      const headers = { 'accept-encoding': encoding };
      const response = await service.post('/hotels/batch', { ids: asked }, { key: 'narrow', headers });
      expect([response.status, response.headers['content-encoding'] ?? 'identity']).toEqual([200, encoding]);
      const found = JSON.parse(decode(response.body).toString());
      expect(found.map(({ id }: HotelRow) => id)).toEqual(present);
      for (const { id, description, registry_id } of found) {
        expect(registry_id).toBe(null);
        if (id.startsWith('z')) expect(description === described(Number(id.slice(1)))).toBe(true);
      }
    }
    const page: HotelRow[] = (await service.get(`/hotels?limit=100&offset=${HOTELS}`)).json();
    const large = page.filter(({ id }) => id.startsWith('z'));
    expect(large.length).toBeGreaterThan(LARGE / 2);
    for (const { id, description } of large)
      expect(description === described(Number(id.slice(1))), id).toBe(true);
  });
});

/** Takes the elements as JSON text, which preserves 1.0 and long numbers. */
const found = async (kind: 'channel' | 'registry', ...elements: string[]) =>
  idsOf(await service.post(`/hotels/${kind}/batch`, `{"${kind}_ids":[${elements}]}`));

// src/http/batch-body.test.ts compares any body with what JSON.parse makes of it
describe('the elements of a batch', () => {
  it('are integers by their value', async () => {
    const among = (integer: string) => found('registry', '"500002"', integer, '500003');
    const padded = `"${'500001'.padStart(24, '0')}"`;
    for (const one of ['500001.0', '5.00001e5', '50000100e-2', '"0500001"', padded])
      expect(await among(one), one).toEqual(['h2', 'h1', 'h3']);
    for (const none of [
      ...['9007199254740992', '"9007199254740993"', '"-9223372036854775808"', '9223372036854775808'],
      ...['123456789012345678901234567890', '1e400', '-1.5e99999999999999999999'],
      // 2^64 more than an existing id
      ...['18446744073710051617', '"18446744073710051617"'],
    ])
      expect(await among(none), none).toEqual(['h2', 'h3']);
  });

  it('are any text', async () => {
    for (const [text, ...ids] of [
      ['"__proto__"', 'proto'],
      ['"constructor"', 'of-object'],
      ['"\\uFFFD"', 'replacement'],
      ['"\\ud83d\\ude00\\"\\\\\\n"', 'emoji'],
      ['"😀\\"\\\\\\u000a"', 'emoji'],
      ['"500001"', 'digits'],
      ['"CH\\u002d1"', 'h1'],
      ...['"\\ud800"', '"\\ude00\\ud83d"', '"CH-1\\ud800"', '"\\u0000"', '"CH-1\\u0000"'].map((text) => [
        text,
      ]),
      ...['"toString"', '"ch-1"', '"CH-1 "', '"CH-01"', '""'].map((text) => [text]),
    ])
      for (let round = 0; round < 2; round++)
        expect(await found('channel', '"CH-5"', text!, '"CH-6"'), text).toEqual(['h5', ...ids, 'h6']);
  });
});

it('the body of a batch is accepted with any content type', async () => {
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'nonsense', '']) {
    const headers = { 'content-type': type };
    expect(idsOf(await service.post('/hotels/batch', { ids: ['h1'] }, { headers }))).toEqual(['h1']);
  }
});

describe('the size of a body', () => {
  /** Sends a request, and reads one response, which may come before the whole body is read. */
  async function send(framing: string, body: string) {
    const connection = new RawConnection(service.port);
    const head = `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n`;
    void connection.write(`${head}${framing}\r\n\r\n${body}`);
    const response = (await connection.read())!;
    connection.close();
    const closes = /\r\nconnection: close/i.test(response.head);
    return { status: response.status, text: response.body, closes };
  }

  it.each([
    ['with its length announced', (body: string) => send(`Content-Length: ${body.length}`, body)],
    [
      'in chunks',
      (body: string) =>
        send('Transfer-Encoding: chunked', `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`),
    ],
  ])('is at most 1 MiB, to the byte, %s', async (_, sendBody) => {
    const padded = (bytes: number) => `${'{"channel_ids":["CH-1"'.padEnd(bytes - 2)}]}`;
    const good = await sendBody(padded(MIB));
    expect([good.status, JSON.parse(good.text)[0].id]).toEqual([200, 'h1']);
    for (const bytes of [MIB + 1, 5 * MIB]) expectError(await sendBody(padded(bytes)), 413, /1 MiB/);
  });

  it.each([
    [MIB + 1, false],
    [8 * MIB, false],
    // it would be read for ever
    [8 * MIB + 1, true],
  ])(
    'of %s bytes is judged by its content-length, before it is sent; it closes: %s',
    async (bytes, closes) => {
      const response = await send(`Content-Length: ${bytes}`, '{');
      expectError(response, 413, /1 MiB/);
      expect(response.closes).toBe(closes);
    },
  );
});

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});
