import { describe, expect, it } from 'vitest';
import { errorsIn } from '../support/log-lines.ts';
import { expectError } from '../support/responses.ts';
import { startService } from '../support/service.ts';

/** Ids that require encoding, and ids with a meaning elsewhere. */
const ODD_IDS = [
  ...['a/b', 'channel/x', '/', '...', 'a..', ' ', 'a b', 'a+b', '%', '%41', '"', "'", ';--', '\\', '?'],
  ...['#', '&='],
  ...['\n', '\u0001', '\u007f', 'é', 'e\u0301', '中文', '😀', '\ufffd', '\ufeff', '\uffff', '__proto__'],
  ...['constructor', 'hasOwnProperty', 'null', 'undefined', 'channel', 'registry', 'batch'],
  ...['x'.repeat(255), '😀'.repeat(255)],
];

const service = await startService({
  hotels: [
    { id: 'plain', channel_id: 'CH-1', registry_id: 500001 },
    { id: 'minus', registry_id: -5 },
    { id: 'zero', registry_id: 0 },
    { id: 'lower', channel_id: 'mixed' },
    { id: 'upper', channel_id: 'MIXED' },
    ...ODD_IDS.map((id) => ({ id, channel_id: id })),
  ],
});

const expectNotFound = async (path: string) => expectError(await service.get(path), 404, 'Hotel not found');

describe('one hotel, at the first and at later requests,', () => {
  it.each([
    ...['/hotels/plain', '/hotels/channel/CH-1', '/hotels/registry/500001', '/hotels/plain?limit=abc&%zz'],
  ])('is found at %s', async (path) => {
    for (let round = 0; round < 3; round++)
      expect((await service.get(path)).json()).toMatchObject({ id: 'plain', registry_id: 500001 });
  });

  it.each([
    ...['/hotels/nowhere', '/hotels/channel/nowhere', '/hotels/registry/500009'],
    // an id of another kind
    ...['/hotels/channel/plain', '/hotels/CH-1', '/hotels/500001'],
  ])('is not found at %s', async (path) => {
    for (let round = 0; round < 3; round++) await expectNotFound(path);
  });
});

describe('an id in the path', () => {
  it.each(ODD_IDS)('is percent-decoded: %j', async (id) => {
    const encoded = encodeURIComponent(id);
    for (const path of [`/hotels/${encoded}`, `/hotels/channel/${encoded}`])
      expect((await service.get(path)).json()).toMatchObject({ id, channel_id: id });
  });

  it.each([
    ['/hotels/%70%6c%61%69%6E', 'plain'],
    ['/hotels/%c3%a9', 'é'],
    // once
    ['/hotels/%2541', '%41'],
    ['/hotels/a+b', 'a+b'],
    ['/hotels/channel/mixed', 'lower'],
    ['/hotels/channel/MIXED', 'upper'],
    ['/hotels/registry/0500001', 'plain'],
    ['/hotels/registry/0000000000000000000000000000500001', 'plain'],
    ['/hotels/registry/%35%30%30%30%30%31', 'plain'],
    ['/hotels/registry/-05', 'minus'],
    ['/hotels/registry/-0', 'zero'],
    ['/hotels/registry/000', 'zero'],
  ])('%s leads to the hotel %s', async (path, id) => {
    expect((await service.get(path)).json().id).toBe(id);
  });

  it.each([
    // undecodable, also where a hotel has the replacement character
    ...['%', '%2', '%zz', '%ff', '%c0%af', '%ed%a0%80', '%ed%b0%80', '%f5%80%80%80', '%e4%b8', '%u0041'],
    ...['%00', 'plain%00', 'pl%00ain', '%252541', 'valueOf', '__defineGetter__', 'PLAIN', '%20plain'],
    ...['plain%20', 'plain%2F', "plain'--", 'Mixed', 'x'.repeat(256), 'x'.repeat(2_000)],
  ])('%s matches nothing', async (part) => {
    await expectNotFound(`/hotels/${part}`);
    await expectNotFound(`/hotels/channel/${part}`);
  });
});

describe('a registry id in the path', () => {
  it.each([
    ...['1.5', '500001.0', '1e3', '0x10', 'abc', 'batch', '%205', '5%20', '%20', '5%0a', '+5', '%2b5', '-'],
    ...['--5', '5-', '5_0', '5,0', '5n', 'NaN', 'Infinity', 'null', '5%00', '%D9%A5', '%EF%BC%95', '%ff'],
  ])('%s is not an integer', async (value) => {
    expectError(await service.get(`/hotels/registry/${value}`), 400, 'registry_id must be an integer');
  });

  it.each([
    ...['9007199254740991', '9223372036854775807', '9223372036854775808', '-9223372036854775809'],
    ...['18446744073710051617', '-123456789012345678901234567890', '9'.repeat(1_000)],
  ])('%s is an integer that matches nothing', async (value) => {
    await expectNotFound(`/hotels/registry/${value}`);
  });
});

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});
