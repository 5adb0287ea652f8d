import { expect, it } from 'vitest';
import { encodingFor, isHost } from './received-request.ts';

const VALID = [
  ...['a', 'api.example.com', 'api.example.com:8080', 'api.example.com:', 'hotel_api', '127.0.0.1:80', 'a.'],
  ...['[::1]', '[::1]:8080', '[fe80::1%25eth0]', '[v1.a:b]', 'xn--bcher-kva.example', '%C3%A9.example'],
];
const WRONG = [
  ...['', ':80', 'a b', 'a\tb', 'a:b', 'a:80:80', 'a/b', 'http://a', 'user@a', 'a?b', 'a#b', 'a\\b', '"a"'],
  ...['::1', '[::1', '::1]', '[]', '[]:80', '[a]b', '%', '%4', '%zz', 'é', 'a\0', 'a\rb', '<a>', 'a|b'],
  '{a}',
];

it('a host with or without a port is valid', () => {
  expect(VALID.filter((value) => !isHost(value))).toEqual([]);
});

it('anything else is not, also right after a valid one', () => {
  for (const value of WRONG) {
    expect(isHost('a')).toBe(true);
    expect(isHost(value), JSON.stringify(value)).toBe(false);
  }
});

it('Accept-Encoding is parsed up to the length that clients send, and is identity beyond', () => {
  expect(encodingFor(`gzip${', gzip'.repeat(20)}`)).toBe('gzip');
  expect(encodingFor(`gzip${', gzip'.repeat(21)}`)).toBeUndefined();
});

it.each([
  ['zstd', ['gzip, deflate, br, zstd', 'identity;q=0.5, zstd;q=0.5']],
  ['br', ['BR ; q=1 , gzip;q=0.9', 'br, *']],
  ['gzip', ['br;q=0.5, gzip', '*']],
  [undefined, ['*;q=0', '*, identity', 'gzip;q=0.5, *', 'gzip;q=0', 'gzip;q=x, br;q=', ',;q=1, deflate']],
  [undefined, ['gzip;q=0.5, identity']],
])('Accept-Encoding is %s if it is one of %j', (encoding, headers) => {
  expect(headers.map(encodingFor)).toEqual(headers.map(() => encoding));
});
