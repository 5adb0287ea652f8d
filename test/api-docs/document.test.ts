import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import type { KeyDetails } from '../../src/http/key-handler.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { DECODERS } from '../support/client.ts';
import { ApiDocument } from '../support/openapi.ts';
import { exampleRow, insertKey } from '../support/rows.ts';
import { run } from '../support/run.ts';
import { startService } from '../support/service.ts';

const withoutKey = { key: 'none' } as const;

/** Tokens of changes differ between databases. */
const withoutToken = (text: string) => text.replace(/"next":"[\w-]+"/, '');

const service = await startService({ hotels: [exampleRow()] });
const document = new ApiDocument((await service.get('/openapi.json', withoutKey)).text);

describe('the document', () => {
  it('is OpenAPI 3.1 of interface version 1.0.0, without errors or warnings of the linter', async () => {
    expect(document.json.openapi).toMatch(/^3\.1\./);
    expect(document.json.info.version).toBe('1.0.0');
    const folder = await temporaryFolder('openapi-');
    await writeFile(join(folder, 'openapi.json'), JSON.stringify(document.json));
    const quiet = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
    const environment = { ...process.env, ...quiet };
    const linter = join(import.meta.dirname, '../../node_modules/.bin/redocly');
    const command = ['lint', '--extends', 'recommended-strict', '--format', 'json', 'openapi.json'];
    expect(JSON.parse(await run(linter, command, { cwd: folder, env: environment })).totals).toEqual({
      errors: 0,
      warnings: 0,
      ignored: 0,
    });
  });

  // test/contract/errors.test.ts compares the responses of each
  it('has the nine operations', () => {
    expect(document.operations().map(({ path, method }) => `${method} ${path}`)).toEqual([
      ...['get /hotels', 'get /changes', 'get /key', 'get /hotels/{id}', 'get /hotels/channel/{channelId}'],
      ...['get /hotels/registry/{registryId}', 'post /hotels/batch', 'post /hotels/channel/batch'],
      'post /hotels/registry/batch',
    ]);
  });

  it('has correct examples of keys', async () => {
    const examples = Object.values<{ value: KeyDetails }>(
      document.find('GET', '/key')!.operation.responses[200].content['application/json'].examples,
    );
    expect(examples.length).toBeGreaterThan(0);
    for (const { value } of examples) {
      const { id, name, scopes, collection, expires_at, rate_limit } = value;
      if (collection) await service.sql`insert into collections ${service.sql(collection)}`;
      const key = await insertKey(service.sql, scopes, collection?.id ?? null);
      await service.sql`update api_keys set id = ${id}, name = ${name}, expires_at = ${expires_at},
        rate_limit_requests = ${rate_limit?.requests ?? null},
        rate_limit_window_s = ${rate_limit?.window_seconds ?? null}
        where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
      const response = await service.get('/key', { key });
      expect(response.text).toBe(JSON.stringify(value));
      document.check('GET', '/key', response);
    }
  });

  it('has correct examples of hotels', async () => {
    for (const { path, method, operation } of document.operations()) {
      if (path === '/key') continue;
      const target = path.replace(/\{(\w+)\}/, (_, name) =>
        encodeURIComponent(operation.parameters.find((each: { name: string }) => each.name === name).example),
      );
      const bodies = Object.values<{ value: object }>(
        operation.requestBody?.content['application/json'].examples ?? { none: {} },
      );
      const examples = operation.responses[200].content['application/json'].examples;
      expect(Object.keys(examples).length).toBeGreaterThan(0);
      for (const { value: body } of bodies) {
        for (const [name, { value }] of Object.entries<{ value: unknown }>(examples)) {
          const key = name === 'scoped' ? 'full' : 'narrow';
          const response =
            method === 'post'
              ? await service.post(target, body, { key })
              : await service.get(target, { key });
          expect(response.status).toBe(200);
          expect(withoutToken(response.text)).toBe(withoutToken(JSON.stringify(value)));
          document.check(method.toUpperCase(), target, response);
        }
      }
    }
  });

  it('has relative server paths, unless the address is configured', async () => {
    expect(document.json.servers[0].url).toBe('/');
    expect(document.json.info.contact).not.toHaveProperty('email');
    const publicly = { PUBLIC_URL: 'https://hotels.example.com', SUPPORT_EMAIL: 'keys@example.com' };
    const announced = await startService({ env: { BASE_PATH: '/data/v1', ...publicly } });
    const { servers, info } = (await announced.get('/data/v1/openapi.json', withoutKey)).json();
    expect(servers[0].url).toBe('https://hotels.example.com/data/v1');
    expect(info.contact.email).toBe('keys@example.com');
    const page = (await announced.get('/data/v1/docs', withoutKey)).text;
    expect(page).toContain('export HOTEL_API_URL=https://hotels.example.com/data/v1');
    expect(page).toContain('mailto:keys@example.com');
    for (const [, path] of page.matchAll(/(?:href|src)="(\/[^"]*)"/g))
      expect([path, (await announced.get(path!, withoutKey)).status]).toEqual([path, 200]);
    expect((await announced.get('/data/v1/hotels?limit=2')).headers.link).toContain(
      '<https://hotels.example.com/data/v1/hotels?limit=2&offset=0>; rel="first"',
    );
    expect((await announced.get('/openapi.json', withoutKey)).status).toBe(404);
    await announced.stop();
  });
});

describe('the public pages', () => {
  const examples = ['curl.sh', 'client.ts', 'usage.ts', 'client.py', 'package.json', 'tsconfig.json'];

  it('are served without a key, with a tag, compressed on request, for HEAD as for GET', async () => {
    const page = (await service.get('/docs', withoutKey)).text;
    const assets = [...page.matchAll(/(?:href|src)="(\/docs\/assets\/[^"]*)"/g)].map(([, path]) => path!);
    const paths = ['/openapi.json', '/docs', '/docs/', ...assets];
    paths.push(...examples.map((name) => `/docs/examples/${name}`));
    expect(paths).toHaveLength(13);
    for (const path of paths) {
      const plain = await service.get(path, withoutKey);
      expect([path, plain.status]).toEqual([path, 200]);
      const { etag } = plain.headers;
      expect(plain.headers).toMatchObject({
        vary: 'accept-encoding',
        'cache-control': 'public, no-cache',
        'x-request-id': expect.any(String),
      });
      const head = await service.get(path, { ...withoutKey, method: 'HEAD' });
      expect([head.status, head.text]).toEqual([200, '']);
      expect(head.headers['content-length']).toBe(String(plain.body.length));
      for (const [coding, unpack] of Object.entries(DECODERS)) {
        const headers = { 'accept-encoding': coding };
        const packed = await service.get(path, { ...withoutKey, headers });
        expect(packed.headers['content-encoding']).toBe(coding);
        expect(packed.body.length).toBeLessThan(plain.body.length);
        expect(unpack(packed.body).equals(plain.body)).toBe(true);
        expect(packed.headers.etag).not.toBe(etag);
        const condition = { ...headers, 'if-none-match': packed.headers.etag };
        const again = await service.get(path, { ...withoutKey, headers: condition });
        expect([again.status, again.text, again.headers.etag]).toEqual([304, '', packed.headers.etag]);
      }
    }
  });

  it('forbid the browser everything from other origins', async () => {
    const { headers } = await service.get('/docs', withoutKey);
    const policy = String(headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    const sources = policy.split('; ').flatMap((directive) => directive.split(' ').slice(1));
    expect(new Set(sources)).toEqual(new Set(["'none'", "'self'", 'data:']));
    expect(headers['x-content-type-options']).toBe('nosniff');
  });

  it('reject other methods and other paths', async () => {
    for (const path of ['/openapi.json', '/docs']) {
      const response = await service.post(path, {}, withoutKey);
      expect([response.status, response.headers.allow]).toEqual([405, 'GET, HEAD']);
    }
    for (const path of ['/docs/nothing', '/docs/assets/x/page.css', '/openapi.yaml'])
      expect((await service.get(path, withoutKey)).text).toBe('{"error":"Not found"}');
  });
});
