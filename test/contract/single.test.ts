import { beforeAll, describe, expect, it } from 'vitest';
import type { HttpResponse } from '../support/client.ts';
import { errorsIn } from '../support/log-lines.ts';
import { type Service, startService } from '../support/service.ts';
import { titled } from '../support/titled.ts';

/** Ids that require encoding, and ids with a meaning elsewhere. */
const ODD_IDS = [
  'a/b',
  'channel/x',
  '/',
  '..',
  '.',
  ' ',
  'a b',
  'a+b',
  '%',
  '%41',
  '"',
  "'",
  ';--',
  '\\',
  '?',
  '#',
  '&=',
  '\n',
  '\u0001',
  '\u007f',
  'é',
  'e\u0301',
  '中文',
  '😀',
  '\ufffd',
  '\ufeff',
  '\uffff',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'null',
  'undefined',
  'channel',
  'registry',
  'batch',
  'x'.repeat(255),
  '😀'.repeat(255),
];

/** Paths that are not valid encodings of a text. */
const UNDECODABLE = [
  '%',
  '%2',
  '%zz',
  '%ff',
  '%c0%af',
  '%ed%a0%80',
  '%ed%b0%80',
  '%f5%80%80%80',
  '%e4%b8',
  'a%',
  '%%20',
  '%u0041',
];

let service: Service;

beforeAll(async () => {
  service = await startService({
    hotels: [
      { id: 'plain', channel_id: 'CH-1', registry_id: 500001 },
      { id: 'minus', registry_id: -5 },
      { id: 'zero', registry_id: 0 },
      { id: 'lower', channel_id: 'mixed' },
      { id: 'upper', channel_id: 'MIXED' },
      ...ODD_IDS.map((id) => ({ id, channel_id: id })),
    ],
  });
});

function expectNotFound(response: HttpResponse): void {
  expect([response.status, response.text]).toEqual([404, '{"error":"Hotel not found"}']);
}

describe('one hotel', () => {
  it.each([
    ['its id', '/hotels/plain'],
    ['its channel id', '/hotels/channel/CH-1'],
    ['its registry id', '/hotels/registry/500001'],
  ])('is found by %s, at the first and at later requests', async (_, path) => {
    for (let round = 0; round < 3; round++) {
      const response = await service.get(path);
      expect(response.status).toBe(200);
      expect(response.json()).toMatchObject({ id: 'plain', channel_id: 'CH-1', registry_id: 500001 });
    }
  });

  it.each([
    ['id', '/hotels/nowhere'],
    ['channel id', '/hotels/channel/nowhere'],
    ['channel id that is a hotel id', '/hotels/channel/plain'],
    ['hotel id that is a channel id', '/hotels/CH-1'],
    ['hotel id that is a registry id', '/hotels/500001'],
    ['registry id', '/hotels/registry/500009'],
  ])('is not found by an unknown %s, at the first and at later requests', async (_, path) => {
    for (let round = 0; round < 3; round++) expectNotFound(await service.get(path));
  });

  it('is found with any query', async () => {
    expect((await service.get('/hotels/plain?limit=abc&registry_id=x&%zz')).status).toBe(200);
  });
});

describe('an id in the path', () => {
  it.each(ODD_IDS.map(titled))('is percent-decoded: %j', async (_, id) => {
    for (const path of [`/hotels/${encode(id)}`, `/hotels/channel/${encode(id)}`]) {
      const response = await service.get(path);
      expect(response.status).toBe(200);
      expect(response.json()).toMatchObject({ id, channel_id: id });
    }
  });

  it('may be encoded unnecessarily, in either case', async () => {
    expect((await service.get('/hotels/%70%6c%61%69%6E')).json().id).toBe('plain');
    expect((await service.get('/hotels/%c3%a9')).json().id).toBe('é');
    expect((await service.get('/hotels/%C3%A9')).json().id).toBe('é');
  });

  it('is decoded once', async () => {
    expect((await service.get('/hotels/%2541')).json().id).toBe('%41');
    expectNotFound(await service.get('/hotels/%252541'));
  });

  it('may contain a plus', async () => {
    expect((await service.get('/hotels/a+b')).json().id).toBe('a+b');
    expect((await service.get('/hotels/a%20b')).json().id).toBe('a b');
  });

  it.each(UNDECODABLE)(
    'matches nothing if it cannot be decoded, not even the replacement character: %s',
    async (part) => {
      expectNotFound(await service.get(`/hotels/${part}`));
      expectNotFound(await service.get(`/hotels/channel/${part}`));
    },
  );

  it.each(['%00', 'plain%00', '%00plain', 'pl%00ain'])('with a NUL matches nothing: %s', async (part) => {
    expectNotFound(await service.get(`/hotels/${part}`));
    expectNotFound(await service.get(`/hotels/channel/${part}`));
  });

  it.each(
    [
      'valueOf',
      '__defineGetter__',
      'PLAIN',
      ' plain',
      'plain%20',
      'plain%2F',
      "plain'--",
      'x'.repeat(256),
      'x'.repeat(2_000),
    ].map(titled),
  )('matches nothing else: %s', async (_, part) => {
    expectNotFound(await service.get(`/hotels/${part.replaceAll(' ', '%20')}`));
  });

  it('is case-sensitive for channel ids', async () => {
    expect((await service.get('/hotels/channel/mixed')).json().id).toBe('lower');
    expect((await service.get('/hotels/channel/MIXED')).json().id).toBe('upper');
    expectNotFound(await service.get('/hotels/channel/Mixed'));
  });

  it('may be a word of the paths', async () => {
    expect((await service.get('/hotels/channel')).json()).toMatchObject({ id: 'channel' });
    expect((await service.get('/hotels/registry')).json()).toMatchObject({ id: 'registry' });
    expect((await service.get('/hotels/batch')).json()).toMatchObject({ id: 'batch' });
    expect((await service.get('/hotels/channel/batch')).json()).toMatchObject({ channel_id: 'batch' });
    expect((await service.get('/hotels/channel/channel')).json()).toMatchObject({ channel_id: 'channel' });
  });
});

describe('an empty id', () => {
  it.each(['/hotels/', '/hotels/channel/', '/hotels/registry/'])('makes %s an unknown path', async (path) => {
    for (const key of ['full', 'none']) {
      const response = await service.get(path, { key });
      expect([response.status, response.text]).toEqual([404, '{"error":"Not found"}']);
    }
  });
});

describe('a registry id in the path', () => {
  it.each([
    ['0500001', 'plain'],
    ['0000000000000000000000000000500001', 'plain'],
    ['%35%30%30%30%30%31', 'plain'],
    ['-5', 'minus'],
    ['-05', 'minus'],
    ['0', 'zero'],
    ['-0', 'zero'],
    ['000', 'zero'],
  ])('%s is the integer of %s', async (value, id) => {
    expect((await service.get(`/hotels/registry/${value}`)).json().id).toBe(id);
  });

  it.each([
    '1.5',
    '500001.0',
    '1e3',
    '0x10',
    'abc',
    'batch',
    '%205',
    '5%20',
    '%20',
    '%0a5',
    '5%0a',
    '+5',
    '%2b5',
    '-',
    '--5',
    '5-',
    '5_0',
    '5,0',
    '5n',
    'NaN',
    'Infinity',
    'null',
    '5%00',
    '%D9%A5',
    '%EF%BC%95',
    '__proto__',
  ])('%s is not an integer', async (value) => {
    const response = await service.get(`/hotels/registry/${value}`);
    expect([response.status, response.text]).toEqual([400, '{"error":"registry_id must be an integer"}']);
  });

  it.each(
    [
      '9007199254740991',
      '9223372036854775807',
      '9223372036854775808',
      '-9223372036854775808',
      '-9223372036854775809',
      '18446744073710051617',
      '123456789012345678901234567890',
      '-123456789012345678901234567890',
      '9'.repeat(1_000),
    ].map(titled),
  )('%s is an integer that matches nothing', async (_, value) => {
    expectNotFound(await service.get(`/hotels/registry/${value}`));
  });
});

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});

/** Encodes an id. `encodeURIComponent` keeps dots, which clients that normalise paths would remove. */
function encode(id: string): string {
  return encodeURIComponent(id).replaceAll('.', '%2E');
}
