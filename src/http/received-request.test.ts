import { expect, it } from 'vitest';
import { isHost } from './received-request.ts';

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
