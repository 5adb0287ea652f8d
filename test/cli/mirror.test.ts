import { execFile } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { createServer, type OutgoingHttpHeaders, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Rejection, startFront } from '../support/front.ts';
import { insertHotels } from '../support/hotel.ts';
import { untilApplied } from '../support/log-state.ts';
import { type Service, startService } from '../support/service.ts';
import { MAIN, Program } from './program.ts';

const HTML = '<!doctype html><title>Maintenance</title>';
const EXPIRED: Rejection = { status: 410, headers: { 'x-error-code': 'token_expired' } };
const HOTELS = Array.from({ length: 1_200 }, (_, i) => ({ id: `h${i}`, registry_id: i }));

type Row = Record<string, unknown>;

let service: Service;
let program: Program;

beforeAll(async () => {
  service = await startService({ hotels: HOTELS });
  program = await Program.set(service.database);
});

/** Starts `mirror` with a valid key. */
const start = (url: string, file: string, ...options: string[]) =>
  program.start(['mirror', url, file, ...options], '', { HOTEL_API_KEY: service.fullKey });
const mirror = () => start(service.url, 'copy.ndjson', '--json').outcome;
const pathOf = (file: string) => join(program.folder, file);
const read = (file: string) => readFile(pathOf(file), 'utf8');

/** Resolves when the service has applied all changes. */
const settled = () => untilApplied(service);

/** Returns the hotels that `export` writes. */
const exported = async () => hotelsOf((await program.run(['export'])).stdout);
const copied = async () => hotelsOf(await read('copy.ndjson'));

/** Returns the hotels in these lines, without the field that only the API has. */
const hotelsOf = (ndjson: string): Row[] =>
  ndjson
    .trim()
    .split('\n')
    .map((line) => {
      const { certified: _, ...hotel } = JSON.parse(line);
      return hotel;
    });

/** Brings the copy up to date, which then has all hotels. */
async function expectCurrent(): Promise<void> {
  expect((await mirror()).code).toBe(0);
  expect(await copied()).toEqual(await exported());
}

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
  await insertHotels(service.sql, HOTELS);
  await expect.poll(async () => (await mirror()).code === 0 && (await copied())).toEqual(await exported());
});

it('restarts if the file was replaced', async () => {
  await mirror();
  await writeFile(pathOf('copy.ndjson'), 'something else\n');
  await expectCurrent();
});

it('never goes on from a position of another content, as after a kill or two runs at once', async () => {
  const file = pathOf('copy.ndjson');
  const contents: Buffer[] = [];
  for (const name of ['old', 'newer', 'newest']) {
    await service.sql`insert into hotels (id, name) values (${name}, ${name})`;
    await settled();
    expect((await mirror()).code).toBe(0);
    contents.push(await readFile(file));
  }
  // the position is written before the file
  await writeFile(file, contents[1]!);
  expect(JSON.parse((await mirror()).stdout)).toMatchObject({ changed: 1 });
  expect(await copied()).toEqual(await exported());
  // another run wrote the file, and this one the position
  await writeFile(file, contents[0]!);
  await expectCurrent();
});

it('--follow keeps the file up to date until it is interrupted', async () => {
  const { child, outcome } = start(service.url, 'copy.ndjson', '--follow');
  await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(1);
  await service.sql`insert into hotels (id, name) values ('followed', 'Followed')`;
  await expect.poll(copied).toEqual(await exported());
  child.kill('SIGINT');
  expect((await outcome).code).toBe(0);
});

it('--follow leaves the file as it was if it is interrupted before it holds all hotels', async () => {
  const front = await startFront(service.port, { 3: EXPIRED, 5: 'silent' });
  expect((await start(front.url, 'interrupted.ndjson').outcome).code).toBe(0);
  const before = await read('interrupted.ndjson');
  const { child, outcome } = start(front.url, 'interrupted.ndjson', '--follow');
  await expect.poll(() => front.seen.length).toBe(5);
  child.kill('SIGINT');
  expect(await outcome).toMatchObject({ code: 1, stderr: expect.stringContaining('is as it was') });
  expect(await read('interrupted.ndjson')).toBe(before);
});

it('goes on after a gateway answered a later page itself', async () => {
  const front = await startFront(service.port, {
    2: { status: 200, headers: { 'content-type': 'text/html' }, body: HTML },
    3: 'cut body without length',
  });
  expect((await start(front.url, 'behind.ndjson').outcome).code).toBe(0);
  expect(hotelsOf(await read('behind.ndjson'))).toEqual(await exported());
  expect(front.seen).toHaveLength(4);
});

describe('a run that is killed', () => {
  it.each<[when: string, file: RegExp, times: number]>([
    ['while it writes', /\.partial$/, 3],
    ['when the position is written', /^copy\.ndjson\.next$/, 1],
    ['when the file is written', /^copy\.ndjson$/, 1],
  ])('%s leaves a whole file', async (when, file, times) => {
    await service.sql`update hotels set name = 'Before'`;
    await settled();
    await mirror();
    await service.sql`update hotels set name = ${when}`;
    await settled();
    const { child, outcome } = start(service.url, 'copy.ndjson');
    let seen = 0;
    const watcher = watch(program.folder, (_, name) => {
      if (file.test(name!) && ++seen === times) child.kill('SIGKILL');
    });
    await outcome;
    watcher.close();
    expect(seen).toBeGreaterThanOrEqual(times);
    expect(new Set((await copied()).map(({ name }) => name)).size).toBe(1);
    await expectCurrent();
  });

  it('leaves an incomplete file, which a later run removes', async () => {
    const [left, recent] = ['copy.ndjson.0123456789ab.partial', 'copy.ndjson.ba9876543210.partial'] as const;
    for (const file of [left, recent]) await writeFile(pathOf(file), '{"id":');
    const old = Date.now() / 1000 - 7_200;
    await utimes(pathOf(left), old, old);
    await mirror();
    const files = await readdir(program.folder);
    expect([left, recent].filter((name) => files.includes(name))).toEqual([recent]);
  });
});

describe('a file that cannot be written', () => {
  it.each([
    ['in a folder that does not exist', 'nowhere/copy.ndjson', /cannot write .* \(ENOENT\)/],
    ['in a file', 'copy.ndjson/copy.ndjson', /cannot write .* \(ENOTDIR\)/],
    ['that is a folder', '.', /is not a regular file/],
    ['that is a device', '/dev/null', /is not a regular file/],
  ])('%s is reported before a hotel is read', async (_, file, message) => {
    // no server is there
    const { code, stderr } = await start('http://127.0.0.1:1', file).outcome;
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
  });

  it('because it is not a copy is kept', async () => {
    await writeFile(pathOf('own.ndjson'), '{"id":"own"}\n');
    const { code, stderr } = await start(service.url, 'own.ndjson').outcome;
    expect([code, stderr]).toEqual([1, expect.stringContaining('is not a copy')]);
    expect(await read('own.ndjson')).toBe('{"id":"own"}\n');
  });

  it('because it is a copy of another API is kept', async () => {
    await mirror();
    const before = await copied();
    const front = await startFront(service.port, {});
    const { code, stderr } = await start(front.url, 'copy.ndjson').outcome;
    expect([code, stderr]).toEqual([1, expect.stringContaining(`is a copy of ${service.url}`)]);
    expect(await copied()).toEqual(before);
  });

  it('because the disk is full is as it was', async () => {
    await mirror();
    const before = await read('copy.ndjson');
    const partials = async () => (await readdir(program.folder)).filter((name) => name.endsWith('.partial'));
    const partialsBefore = await partials();
    await service.sql`update hotels set name = 'Full'`;
    await settled();
    // a limit of the file's size replaces the disk's
    const limited = ['-c', 'ulimit -f 100; exec "$@"', 'sh', process.execPath, MAIN];
    const { stderr } = await promisify(execFile)('sh', [...limited, 'mirror', service.url, 'copy.ndjson'], {
      cwd: program.folder,
      env: { HOTEL_API_KEY: service.fullKey },
    }).catch((error) => error);
    expect(stderr).toMatch(/cannot write .* \(EFBIG\)/);
    expect(await read('copy.ndjson')).toBe(before);
    expect(await partials()).toEqual(partialsBefore);
  });
});

it('reports faults', async () => {
  const args = ['mirror', service.url, 'copy.ndjson'];
  const rejected = await program.run(args, '', { HOTEL_API_KEY: 'wrong' });
  expect([rejected.code, rejected.stderr]).toEqual([1, expect.stringContaining('401')]);
  expect((await program.run(args, '', {})).stderr).toContain('HOTEL_API_KEY');
});

describe('a server that is another, or hostile,', () => {
  /** Starts a server with these responses. Returns its address. */
  async function listen(respond: RequestListener): Promise<string> {
    const server = createServer(respond).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** Runs `mirror` against such a server, over a copy that exists. */
  async function mirrorOf(respond: RequestListener) {
    const api = await listen(respond);
    await writeFile(pathOf('kept.ndjson'), '{"id":"kept"}\n');
    const states = [{ sha256: hash('sha256', '{"id":"kept"}\n'), next: 'a token' }];
    await writeFile(pathOf('kept.ndjson.next'), JSON.stringify({ api, states }));
    const outcome = await start(api, 'kept.ndjson').outcome;
    return { ...outcome, kept: await read('kept.ndjson') };
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

  it.each<[what: string, headers: OutgoingHttpHeaders]>([
    ['without the code of this API', {}],
    ['to every request', { 'x-error-code': 'token_expired' }],
  ])('is not requested for ever if it responds with 410 %s', async (_, headers) => {
    let requests = 0;
    const { code, stderr, kept } = await mirrorOf((_, response) => {
      requests++;
      response.writeHead(410, headers).end('gone');
    });
    expect([code, kept]).toEqual([1, '{"id":"kept"}\n']);
    expect(stderr).toContain('answers 410 gone');
    expect(requests).toBeLessThanOrEqual(2);
  });

  it('cannot send the key elsewhere', async () => {
    const keys: unknown[] = [];
    const { code } = await mirrorOf(({ headers, url }, response) => {
      if (url!.startsWith('/elsewhere')) keys.push(headers['x-api-key']);
      response.writeHead(302, { location: '/elsewhere' }).end();
    });
    expect([code, keys]).toEqual([1, []]);
  });

  it('is not requested again at once, whatever time it names', async () => {
    let requests = 0;
    const api = await listen((_, response) => {
      requests++;
      response.writeHead(503, { 'retry-after': '99999999' }).end('busy');
    });
    const { child, outcome } = start(api, 'x');
    await expect.poll(() => requests).toBe(1);
    child.kill('SIGINT');
    expect((await outcome).stderr).not.toContain('TimeoutOverflowWarning');
    expect(requests).toBe(1);
  });
});
