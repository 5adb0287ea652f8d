import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Service, startService } from '../support/service.ts';
import { Program } from './program.ts';

const HOTELS = Array.from({ length: 1_200 }, (_, i) => ({ id: `h${i}`, registry_id: i }));

let service: Service;
let program: Program;

beforeAll(async () => {
  service = await startService({ hotels: HOTELS });
  program = await Program.set(service.database);
});

const mirror = (...options: string[]) =>
  program.run(['mirror', service.url, 'copy.ndjson', '--json', ...options], '', {
    HOTEL_API_KEY: service.fullKey,
  });

/** Returns the lines that `export` writes, without the fields that only the API has. */
async function exported(): Promise<unknown[]> {
  return hotelsOf((await program.run(['export'])).stdout);
}

async function copied(): Promise<unknown[]> {
  return hotelsOf(await readFile(join(program.folder, 'copy.ndjson'), 'utf8'));
}

const hotelsOf = (ndjson: string): unknown[] =>
  ndjson
    .trim()
    .split('\n')
    .map((line) => {
      const { certified: _, ...hotel } = JSON.parse(line);
      return hotel;
    });

it('copies all hotels, then changes, and survives a TRUNCATE', async () => {
  const first = await mirror();
  expect([first.code, JSON.parse(first.stdout)]).toMatchObject([
    0,
    { hotels: 1_200, requests: 2, removed: 0 },
  ]);
  expect(await copied()).toEqual(await exported());

  await service.sql`delete from hotels where id = 'h7'`;
  await service.sql`update hotels set id = 'renamed' where id = 'h8'`;
  await expect.poll(async () => (await mirror()).code === 0 && (await copied())).toEqual(await exported());
  const none = JSON.parse((await mirror()).stdout);
  expect(none).toMatchObject({ hotels: 1_199, requests: 1, changed: 0, removed: 0 });

  await service.sql`truncate hotels`;
  await service.sql`insert into hotels (id, name) values ('only', 'Only')`;
  await expect.poll(async () => (await mirror()).code === 0 && (await copied())).toEqual(await exported());
});

it('restarts if the file was replaced', async () => {
  await mirror();
  await writeFile(join(program.folder, 'copy.ndjson'), 'something else\n');
  expect((await mirror()).code).toBe(0);
  expect(await copied()).toEqual(await exported());
});

it('--follow keeps the file up to date until it is interrupted', async () => {
  const { child, outcome } = program.start(['mirror', service.url, 'copy.ndjson', '--follow'], '', {
    HOTEL_API_KEY: service.fullKey,
  });
  await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(1);
  await service.sql`insert into hotels (id, name) values ('followed', 'Followed')`;
  await expect.poll(async () => (await copied()) as unknown[]).toEqual(await exported());
  child.kill('SIGINT');
  expect((await outcome).code).toBe(0);
});

it('reports faults', async () => {
  const rejected = await program.run(['mirror', service.url, 'copy.ndjson'], '', { HOTEL_API_KEY: 'wrong' });
  expect(rejected.code).toBe(1);
  expect(rejected.stderr).toContain('401');
  expect((await program.run(['mirror', service.url, 'copy.ndjson'], '', {})).stderr).toContain(
    'HOTEL_API_KEY',
  );
});

describe('a server that is another, or hostile,', () => {
  const KEY = 'a key to be kept';

  /** Runs `mirror` against a server with these responses, over a copy that exists. */
  async function mirrorOf(respond: RequestListener) {
    const server = createServer(respond).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await expect.poll(() => server.listening).toBe(true);
    const { port } = server.address() as AddressInfo;
    await writeFile(join(program.folder, 'kept.ndjson'), '{"id":"kept"}\n');
    await writeFile(join(program.folder, 'kept.ndjson.next'), 'a token\n');
    const outcome = await program.run(['mirror', `http://127.0.0.1:${port}`, 'kept.ndjson'], '', {
      HOTEL_API_KEY: KEY,
    });
    return { ...outcome, kept: await readFile(join(program.folder, 'kept.ndjson'), 'utf8') };
  }

  it.each([
    'hello',
    'null',
    '{"x":1}',
    '{"changes":[],"more":false}',
    '{"changes":[],"next":"t"}',
    '{"changes":[{"id":5,"hotel":{"id":5}}],"next":"t","more":false}',
    '{"changes":[{"id":"a","hotel":{"id":"b"}}],"next":"t","more":false}',
    '{"changes":[{"id":"a"}],"next":"t","more":false}',
  ])('does not replace the copy by %s', async (body) => {
    const { code, stderr, kept } = await mirrorOf((_, response) => response.end(body));
    expect([code, kept]).toEqual([1, '{"id":"kept"}\n']);
    expect(stderr).toMatch(/^hotel-api: http:.* answers 200 with no page of changes\. Check the address/);
  });

  it('cannot command the terminal', async () => {
    const { code, stderr, kept } = await mirrorOf((_, response) => {
      response.statusCode = 400;
      response.end('\x1b[2J\u009b31m');
    });
    expect([code, kept]).toEqual([1, '{"id":"kept"}\n']);
    expect(stderr).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f]/);
    expect(stderr).toContain('\\u001b[2J\\u009b31m');
  });

  it('cannot send the key elsewhere', async () => {
    const keys: unknown[] = [];
    const { code } = await mirrorOf(({ headers, url }, response) => {
      if (url!.startsWith('/elsewhere')) keys.push(headers['x-api-key']);
      response.writeHead(302, { location: '/elsewhere' }).end();
    });
    expect([code, keys]).toEqual([1, []]);
  });

  it('is not asked again at once, whatever time it names', async () => {
    let requests = 0;
    const server = createServer((_, response) => {
      requests++;
      response.writeHead(503, { 'retry-after': '99999999' }).end('busy');
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await expect.poll(() => server.listening).toBe(true);
    const { port } = server.address() as AddressInfo;
    const { child, outcome } = program.start(['mirror', `http://127.0.0.1:${port}`, 'x'], '', {
      HOTEL_API_KEY: KEY,
    });
    await expect.poll(() => requests).toBe(1);
    child.kill('SIGINT');
    expect((await outcome).stderr).not.toContain('TimeoutOverflowWarning');
    expect(requests).toBe(1);
  });
});
