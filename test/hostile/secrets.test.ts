import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { makeKey } from '../../src/auth/key.ts';
import { needs } from '../support/needs.ts';
import { workersOf } from '../support/processes.ts';
import { insertKey } from '../support/rows.ts';
import { startBeside, startService } from '../support/service.ts';

await needs('redis');

const BASE = '/v1';

const service = await startService({
  workers: 2,
  hotels: [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }, { id: 'h2' }, { id: 'h3' }],
  env: { LOG_LEVEL: 'trace', ACCESS_LOG_SAMPLE: '1', BASE_PATH: BASE },
});
await workersOf(service, 2);

function expectAbsent(where: string, text: string, secrets: Record<string, string>): void {
  for (const [what, secret] of Object.entries(secrets))
    expect(text.includes(secret), `${what} appears in ${where}`).toBe(false);
}

it('keys and passwords are in no response, log, metric, title or argument of a process', async () => {
  const unknown = makeKey();
  const late = await insertKey(service.sql, []);
  const secrets = {
    'a key': service.fullKey,
    'another key': service.narrowKey,
    'the password of PostgreSQL': new URL(service.database.url).password,
    'an unknown key': unknown,
    'a key used while its table is missing': late,
  };
  expect(Object.values(secrets).every((secret) => secret.length >= 16)).toBe(true);
  const said: string[] = [];
  const send = async (path: string, key: string, more: object = {}) =>
    said.push(JSON.stringify(await service.get(BASE + path, { key, ...more }).catch(String)));
  const keys = [service.fullKey, service.narrowKey, unknown, `${unknown}x`, `${unknown}, ${service.fullKey}`];
  for (const key of keys) {
    for (const path of ['/hotels/h1', '/hotels', '/hotels/registry/x', '/hotels/registry/1', '/nowhere'])
      await send(path, key);
    await send(`/hotels/${key}`, key);
    await send(`/hotels?limit=${key}`, key);
    await send('/hotels/h1', key, { headers: { 'x-request-id': `${key}?` } });
    said.push(JSON.stringify(await service.post(`${BASE}/hotels/channel/batch`, key, { key })));
  }
  // an unexpected error is logged with its stack
  await service.sql`revoke select on hotels, api_keys from hotel_api_serve`;
  for (const key of [service.fullKey, late]) {
    await send('/hotels/h3', key);
    await send('/hotels?limit=7', key);
  }
  await service.sql`grant select on hotels, api_keys to hotel_api_serve`;

  expect(said.length).toBeGreaterThan(40);
  expectAbsent('an answer', said.join('\n'), secrets);
  const log = service.logs().join('\n');
  expect(log).toContain('request failed');
  expectAbsent('the log', log, secrets);
  expectAbsent('the metrics', await service.metrics(), secrets);
  for (const pid of [service.pid, ...(await service.workerPids())])
    for (const file of ['cmdline', 'comm', 'status'])
      expectAbsent(file, await readFile(`/proc/${pid}/${file}`, 'utf8'), secrets);
});

it('passwords that are wrong are not printed by a service that cannot start', async () => {
  const wrong = { 'a wrong password of PostgreSQL': 'Sesame-0pen-PG', 'one of Redis': 'Sesame-0pen-RD' };
  const [postgres, redis] = Object.values(wrong);
  const { host, pathname } = new URL(service.database.url);
  for (const [at, redisAt] of [
    [host, new URL(service.redisDatabase!.url).host],
    ['127.0.0.1:1', '127.0.0.1:1'],
  ]) {
    const broken = await startBeside(service, {
      env: {
        DATABASE_URL: `postgres://nobody:${postgres}@${at}${pathname}`,
        REDIS_URL: `redis://nobody:${redis}@${redisAt}/0`,
        LOG_LEVEL: 'trace',
      },
      awaitReady: false,
    });
    await expect.poll(() => broken.logs().join('\n')).toMatch(/dependency not ready/);
    expectAbsent('the metrics', await broken.metrics(), wrong);
    await broken.stop();
    expectAbsent('the log', broken.logs().join('\n'), wrong);
  }
});

it.runIf(process.platform === 'linux')(
  'no process may leave a core file, nor may the successor of an aborted worker',
  async () => {
    const [victim] = await service.workerPids();
    process.kill(victim!, 'SIGABRT');
    const ended = `"workerPid":${victim},"code":null,"signal":"SIGABRT"`;
    await expect.poll(() => service.logs().join('\n')).toContain(ended);
    await expect.poll(async () => (await service.workerPids()).length).toBe(2);
    // at this value Linux writes no file and starts no handler
    for (const pid of [service.pid, ...(await service.workerPids())])
      expect(await readFile(`/proc/${pid}/limits`, 'utf8')).toMatch(/^Max core file size +1 +1 /m);
  },
);

describe('line ends', () => {
  const EVIL = ['a\rb', 'a\nb', 'a\r\n b', 'a\0b', 'a\x85b', 'a\u2028b', 'a%0d%0ab: c', '"a', 'é'];
  const LINE = /^[a-z-]+: [\x20-\x7e]*$/;
  const NAMES =
    /^(content-type|cache-control|vary|x-request-id|etag|link|allow|retry-after|connection|content-length|content-encoding|ratelimit|ratelimit-policy|transfer-encoding|date|keep-alive|x-error-code|www-authenticate): /i;

  it('of a client appear in no header of a response, in any encoding', async () => {
    const requests = EVIL.flatMap((evil) => {
      const key = `x-api-key: ${service.fullKey}\r\n`;
      const head = `Host: a\r\nConnection: close\r\n${key}`;
      return [
        `GET ${BASE}/hotels/h1 HTTP/1.1\r\n${head}x-request-id: ${evil}\r\n\r\n`,
        `GET ${BASE}/hotels/${evil} HTTP/1.1\r\n${head}\r\n`,
        `GET ${BASE}/hotels?limit=1&offset=1${evil} HTTP/1.1\r\n${head}\r\n`,
        `GET ${BASE}/hotels?limit=1&x=${encodeURIComponent(evil)} HTTP/1.1\r\n${head}\r\n`,
        `GET ${BASE}/hotels HTTP/1.1\r\n${head}if-none-match: "${evil}"\r\naccept-encoding: ${evil}\r\n\r\n`,
        `GET /${evil} HTTP/1.1\r\n${head}\r\n`,
        `${evil} ${BASE}/hotels HTTP/1.1\r\n${head}\r\n`,
        `GET ${BASE}/hotels HTTP/1.1\r\nHost: ${evil}\r\nConnection: close\r\n${key}\r\n`,
        `GET ${BASE}/hotels/h1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nx-api-key: ${evil}\r\n\r\n`,
      ];
    });
    let answered = 0;
    await Promise.all(
      requests.map(async (request) => {
        const answer = await service.raw(Buffer.from(request, 'utf8'));
        if (answer === '') return;
        answered++;
        const [status, ...lines] = answer.slice(0, answer.indexOf('\r\n\r\n')).split('\r\n');
        expect(status).toMatch(/^HTTP\/1\.1 [2345]\d\d [\x20-\x7e]+$/);
        // rejections by the library have their own headers
        if (/^HTTP\/1\.1 (431|505)/.test(status!) || !/x-request-id/.test(answer)) return;
        for (const line of lines) {
          expect(line.toLowerCase(), request).toMatch(LINE);
          expect(line, request).toMatch(NAMES);
        }
        expect(new Set(lines.map((line) => line.split(':')[0])).size, request).toBe(lines.length);
      }),
    );
    expect(answered).toBeGreaterThan(requests.length / 2);
  });

  it('appear in no log: each line is one JSON object of the service', () => {
    const lines = service.logs();
    expect(lines.filter((line) => line.includes('"msg":"request"')).length).toBeGreaterThan(50);
    for (const line of lines) {
      const { level, time, role } = JSON.parse(line);
      expect([typeof level, typeof time, typeof role]).toEqual(['string', 'string', 'string']);
    }
  });
});
