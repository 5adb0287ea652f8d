import { beforeAll, describe, expect, it } from 'vitest';
import type { HttpResponse, RequestOptions } from '../support/client.ts';
import { type Service, startService } from '../support/service.ts';
import { titled } from '../support/titled.ts';

let service: Service;

beforeAll(async () => {
  service = await startService({ hotels: [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }] });
});

type Parts = [method: string, path: string, body?: string];

function send([method, path, body]: Parts, options: RequestOptions = {}): Promise<HttpResponse> {
  return body === undefined
    ? service.get(path, { method, ...options })
    : service.post(path, body, { method, ...options });
}

/** Fails unless the error has exactly this form. */
function expectError(response: HttpResponse, status: number, sentence: string | RegExp): void {
  expect(response.status).toBe(status);
  expect(response.headers['content-type']).toBe('application/json');
  expect(response.headers['content-length']).toBe(String(response.body.length));
  const { error, ...more } = response.json();
  if (typeof sentence === 'string') expect(error).toBe(sentence);
  else expect(error).toMatch(sentence);
  expect(more).toEqual({});
}

/** For each operation: a valid request, and requests that fail at each check and at every later one. */
const operations: Record<string, { good: Parts; scoped?: true; bad: Parts[]; unknown?: Parts }> = {
  'GET /hotels': {
    good: ['GET', '/hotels'],
    bad: [
      ['GET', '/hotels?limit=0'],
      ['GET', '/hotels?offset=-1'],
    ],
  },
  'GET /hotels with registry_id': {
    good: ['GET', '/hotels?registry_id=500001'],
    scoped: true,
    bad: [
      ['GET', '/hotels?registry_id=abc'],
      ['GET', '/hotels?registry_id='],
      ['GET', '/hotels?limit=0&registry_id=500001'],
    ],
  },
  'GET /hotels/{id}': { good: ['GET', '/hotels/h1'], bad: [], unknown: ['GET', '/hotels/nowhere'] },
  'GET /hotels/channel/{channelId}': {
    good: ['GET', '/hotels/channel/CH-1'],
    bad: [],
    unknown: ['GET', '/hotels/channel/nowhere'],
  },
  'GET /hotels/registry/{registryId}': {
    good: ['GET', '/hotels/registry/500001'],
    scoped: true,
    bad: [
      ['GET', '/hotels/registry/abc'],
      ['GET', '/hotels/registry/batch'],
      ['GET', '/hotels/registry/1.5'],
    ],
    unknown: ['GET', '/hotels/registry/1'],
  },
  'POST /hotels/channel/batch': {
    good: ['POST', '/hotels/channel/batch', '{"channel_ids":["CH-1"]}'],
    bad: [
      ['POST', '/hotels/channel/batch', '{'],
      ['POST', '/hotels/channel/batch', ''],
      ['POST', '/hotels/channel/batch', '{}'],
      ['POST', '/hotels/channel/batch', '{"channel_ids":[1]}'],
    ],
  },
  'POST /hotels/registry/batch': {
    good: ['POST', '/hotels/registry/batch', '{"registry_ids":[500001]}'],
    scoped: true,
    bad: [
      ['POST', '/hotels/registry/batch', '{'],
      ['POST', '/hotels/registry/batch', ''],
      ['POST', '/hotels/registry/batch', '{}'],
      ['POST', '/hotels/registry/batch', '{"registry_ids":["abc"]}'],
    ],
  },
};
const rows = Object.entries(operations).map(([name, row]) => ({ name, ...row }));

describe.each(rows)('$name', ({ good, scoped, bad, unknown }) => {
  const failing = [...bad, ...(unknown ? [unknown] : [])];

  it('answers a valid request', async () => {
    const response = await send(good);
    expect([response.status, response.headers['content-type']]).toEqual([200, 'application/json']);
  });

  it('checks the key first', async () => {
    for (const request of [good, ...failing]) {
      expectError(await send(request, { key: 'none' }), 401, 'Unauthorized');
      expectError(await send(request, { key: 'nonsense' }), 401, 'Unauthorized');
    }
  });

  it(scoped ? 'then checks the scope, for any values' : 'requires no scope', async () => {
    for (const request of [good, ...failing]) {
      const response = await send(request, { key: 'narrow' });
      if (scoped) expectError(response, 403, 'Forbidden');
      else expect(response.status).toBe((await send(request)).status);
    }
  });

  it.runIf(bad.length > 0)('then checks the values', async () => {
    for (const request of bad) expectError(await send(request), 400, /./);
  });

  it.runIf(unknown)('finally looks up the hotel', async () => {
    expectError(await send(unknown!), 404, 'Hotel not found');
  });
});

describe('an unknown path', () => {
  it.each(
    [
      '/',
      '/hotel',
      '/Hotels',
      '/hotels/a/b',
      '/hotels/channel/a/b',
      '/hotels/registry/1/2',
      '/hotels/channel/batch/x',
      '/v1/hotels',
      '/hotels.json',
      '//hotels',
      '/metrics',
      '/livez',
      '/readyz',
      '/favicon.ico',
      '/%68otels',
      '/hotels%2Fh1',
      '/__proto__',
      '/*',
      `/${'x'.repeat(2_000)}`,
    ].map(titled),
  )('results in 404 for every method, with and without a key: %s', async (_, path) => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS']) {
      for (const key of ['full', 'none']) {
        expectError(
          await send([method, path, method === 'GET' ? undefined : '{}'], { key }),
          404,
          'Not found',
        );
      }
    }
  });

  it('results in 404 for HEAD too, without a body', async () => {
    const response = await send(['HEAD', '/nowhere'], { key: 'none' });
    expect([response.status, response.text]).toEqual([404, '']);
  });
});

describe('a method that is not allowed', () => {
  const READ = ['GET', 'HEAD'];
  // "batch" is a channel id like any other, and a registry id that is not an integer
  const BATCH = ['GET', 'HEAD', 'POST'];

  it.each([
    ['/hotels', READ],
    ['/hotels/h1', READ],
    ['/hotels/nowhere', READ],
    ['/hotels/channel', READ],
    ['/hotels/registry', READ],
    ['/hotels/channel/CH-1', READ],
    ['/hotels/registry/500001', READ],
    ['/hotels/registry/abc', READ],
    ['/hotels/channel/batch', BATCH],
    ['/hotels/registry/batch', BATCH],
  ])('results in 405 at %s, before the key is checked', async (path, allowed) => {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']) {
      if (allowed.includes(method)) continue;
      for (const key of ['full', 'none']) {
        const body = method === 'TRACE' ? undefined : '{"channel_ids":[]}';
        const response = await send([method, path, body], { key });
        expectError(response, 405, /./);
        expect(String(response.headers.allow).split(/, */).sort()).toEqual(allowed);
      }
    }
  });

  it('does not hide the look-up of an id named batch', async () => {
    expectError(await send(['GET', '/hotels/channel/batch']), 404, 'Hotel not found');
    expectError(await send(['GET', '/hotels/registry/batch']), 400, 'registry_id must be an integer');
    expect((await send(['HEAD', '/hotels/channel/batch'])).status).toBe(404);
  });
});

describe("the specification's table of errors", () => {
  it.each<[status: number, sentence: string, request: Parts, key?: 'narrow' | 'none']>([
    [400, 'registry_id must be an integer', ['GET', '/hotels?registry_id=abc']],
    [400, 'registry_id must be an integer', ['GET', '/hotels/registry/abc']],
    [400, 'registry_id must be an integer', ['POST', '/hotels/registry/batch', '{"registry_ids":["abc"]}']],
    [400, 'Request body must include a `channel_ids` array', ['POST', '/hotels/channel/batch', '{}']],
    [400, 'Request body must include a `registry_ids` array', ['POST', '/hotels/registry/batch', '{}']],
    [401, 'Unauthorized', ['GET', '/hotels'], 'none'],
    [403, 'Forbidden', ['GET', '/hotels/registry/500001'], 'narrow'],
    [404, 'Hotel not found', ['GET', '/hotels/nowhere']],
    [404, 'Hotel not found', ['GET', '/hotels/channel/nowhere']],
    [404, 'Hotel not found', ['GET', '/hotels/registry/1']],
  ])('has %s %s: %s', async (status, sentence, request, key = undefined) => {
    expectError(await send(request, { key }), status, sentence);
    expect((await send(request, { key })).text).toBe(JSON.stringify({ error: sentence }));
  });

  it.each<[status: number, sentence: string, request: Parts]>([
    [400, 'Request body must be valid JSON', ['POST', '/hotels/channel/batch', '{']],
    [
      413,
      'Request body must be at most 1 MiB',
      ['POST', '/hotels/channel/batch', ' '.repeat(1024 * 1024 + 1)],
    ],
    [404, 'Not found', ['GET', '/nowhere']],
    [405, 'Method not allowed', ['DELETE', '/hotels']],
  ])("is extended by the contract's %s %s", async (status, sentence, request) => {
    expectError(await send(request), status, sentence);
  });

  it('has 500 for unexpected failures, and 503 for unavailable dependencies', async () => {
    // the service may no longer read hotels and does not learn why, so both are correct
    await service.sql`revoke select on hotels from hotel_api_serve`;
    try {
      const requests: Parts[] = [
        ['GET', '/hotels/never-asked'],
        ['GET', '/hotels/channel/never-asked'],
        ['GET', '/hotels/registry/70001'],
        ['POST', '/hotels/channel/batch', '{"channel_ids":["CH-1","never-asked-either"]}'],
        ['POST', '/hotels/registry/batch', '{"registry_ids":[500001,70002]}'],
      ];
      for (const request of requests) {
        const response = await send(request);
        expect([500, 503]).toContain(response.status);
        expectError(
          response,
          response.status,
          response.status === 500 ? 'Internal server error' : 'Service unavailable',
        );
        if (response.status === 503) expect(response.headers['retry-after']).toMatch(/^\d+$/);
      }
    } finally {
      await service.sql`grant select on hotels to hotel_api_serve`;
    }
    const healed = async () => (await send(['GET', '/hotels/never-asked'])).status;
    await expect.poll(healed).toBe(404);
  });
});
