import { beforeAll, expect, it } from 'vitest';
import { type Service, startService } from '../support/service.ts';

let service: Service;

beforeAll(async () => {
  service = await startService({ redis: false });
});

const HOST = 'HTTP/1.1\r\nhost: x\r\n';
const OF_LIBRARY: Record<string, [status: RegExp, request: string]> = {
  'headers over 4 KiB': [/431/, `GET /hotels ${HOST}x-long: ${'a'.repeat(5_000)}\r\n\r\n`],
  'a target over 4 KiB': [/431/, `GET /${'a'.repeat(5_000)} ${HOST}\r\n`],
  '99 headers': [/431/, `GET /hotels ${HOST}${'x: y\r\n'.repeat(99)}\r\n`],
  'HTTP/1.0': [/505/, 'GET /hotels HTTP/1.0\r\nhost: x\r\n\r\n'],
  'HTTP/2': [/505/, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  TLS: [/505|400/, '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  'absolute form': [/505|400/, `GET http://x/hotels ${HOST}\r\n`],
  'an asterisk': [/505|400/, `OPTIONS * ${HOST}\r\n`],
  'a control character in the target': [/505|400/, `GET /hotels\x01 ${HOST}\r\n`],
  'a blank in the target': [/505|400/, `GET /hotels/a b ${HOST}\r\n`],
  'bare line feeds': [/505|400/, 'GET /hotels HTTP/1.1\nhost: x\n\n'],
  'no host': [/400/, 'GET /hotels HTTP/1.1\r\nx: y\r\n\r\n'],
  'a length that is no number': [/400/, `POST /hotels/batch ${HOST}content-length: x\r\n\r\n`],
};

it.each(Object.entries(OF_LIBRARY))(
  'the HTTP library itself answers %s in HTML, without a code, as the documents say',
  async (_, [status, request]) => {
    const answer = await service.raw(Buffer.from(request, 'latin1'));
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 (${status.source}) [^]*<h1>`));
    expect(answer).not.toContain('x-error-code');
  },
);
