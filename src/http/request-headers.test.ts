import { expect, it } from 'vitest';
import { requestWith } from './request.fixture.ts';
import { RequestHeaders } from './request-headers.ts';

const headersOf = (...headers: [string, string][]) => new RequestHeaders(requestWith(...headers));

it.each([
  ['accept-encoding', 'acceptEncoding'],
  ['x-api-key', 'apiKey'],
  ['if-none-match', 'ifNoneMatch'],
  ['x-request-id', 'requestId'],
  ['traceparent', 'traceParent'],
  ['host', 'host'],
  ['connection', 'connection'],
  ['content-length', 'contentLength'],
  ['transfer-encoding', 'transferEncoding'],
] as const)('of repeated headers %s the first counts, even an empty one', (name, field) => {
  expect(headersOf()[field]).toBeUndefined();
  // another name of the same length
  expect(headersOf(['x'.repeat(name.length), 'a'])[field]).toBeUndefined();
  expect(headersOf([name, 'a'], [name, 'b'])[field]).toBe('a');
  expect(headersOf([name, ''], [name, 'b'])[field]).toBe('');
});

it('counts the hosts and the headers that frame a body', () => {
  const headers = headersOf(['content-length', ''], ['transfer-encoding', ''], ['host', 'a'], ['host', '']);
  expect([headers.framings, headers.hosts]).toEqual([2, 2]);
});

it.each([
  ['close', true],
  ['Close', true],
  ['keep-alive', false],
  ['', false],
])('with connection %j, a client wants it closed: %s', (value, wantsClose) => {
  expect(headersOf(['connection', value]).wantsClose).toBe(wantsClose);
});

it.each([
  ['gzip', true],
  ['', false],
  ['Identity', false],
])('a body with content-encoding %j is coded: %s', (value, isCoded) => {
  expect(headersOf(['content-encoding', value]).isCoded).toBe(isCoded);
});
