import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { sectionOf } from '../../docs/api/build/guide.ts';
import { ROOT } from '../documents/files.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { CLIENTS, ClientPrograms } from '../support/client-programs.ts';
import { type FrontFault, startFront } from '../support/front.ts';
import { untilSequenced } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { exampleRow } from '../support/rows.ts';
import { run } from '../support/run.ts';
import { ownPort, type Service, startService } from '../support/service.ts';

const EXAMPLES = join(ROOT, 'docs/api/clients');
const FIRST = { channel: 100_001, registry: 500_001 };
const HOTELS = 2_400;

await needs('curl', 'python3');

let service: Service;
let programs: ClientPrograms;

beforeAll(async () => {
  const example = exampleRow();
  const others = Array.from({ length: HOTELS }, (_, i) => ({
    id: `hotel ${i}/ä`,
    channel_id: `CH${FIRST.channel + i}`,
    registry_id: FIRST.registry + i,
  })).filter(({ channel_id }) => channel_id !== example.channel_id);
  service = await startService({ hotels: [example, ...others] });
  programs = await ClientPrograms.of(service);
  await symlink(join(ROOT, 'node_modules'), join(programs.folder, 'node_modules'));
  // the types are generated from the document
  await runExample(process.execPath, [
    ...['--no-warnings', '--import', join(ROOT, 'test/support/typescript-with-api.ts')],
    join(ROOT, 'node_modules/openapi-typescript/bin/cli.js'),
    ...[`${service.url}/openapi.json`, '-o', 'openapi.d.ts'],
  ]);
});

const runExample = (program: string, options: string[], url?: string) => programs.run(program, options, url);

it('types generated from the document compile, with a client that uses them', async () => {
  const compiler = join(ROOT, 'node_modules/.bin/tsc');
  const strict = '--ignoreConfig --noEmit --strict --noUncheckedIndexedAccess --skipLibCheck --types node';
  const modern = '--module nodenext --target es2024 --allowImportingTsExtensions --erasableSyntaxOnly';
  const own = ['drive.ts', 'same-hotel.ts', 'update-copy.ts'];
  const files = ['client.ts', 'usage.ts', 'sqlite-copy.ts', ...own];
  expect(await runExample(compiler, [...`${strict} ${modern}`.split(' '), ...files])).toBe('');
});

it('the package of the TypeScript client can be installed, imported and run', async () => {
  const place = await temporaryFolder('package-');
  const inside = {
    cwd: place,
    env: { ...process.env, HOTEL_API_URL: service.url, HOTEL_API_KEY: service.fullKey },
  };
  await cp(EXAMPLES, join(place, 'source'), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(place, 'source/node_modules'));
  const packed = await run('npm', ['pack', '--json', './source'], inside);
  const [{ filename, files }] = JSON.parse(packed.slice(packed.indexOf('[\n')));
  expect(files.map(({ path }: { path: string }) => path)).toEqual([
    'dist/client.d.ts',
    'dist/client.js',
    'package.json',
  ]);
  const installed = join(place, 'node_modules/hotel-api-client');
  await mkdir(installed, { recursive: true });
  await run('tar', ['-xzf', filename, '--strip-components=1', '-C', installed], inside);
  await cp(join(EXAMPLES, 'usage.ts'), join(place, 'usage.ts'));
  const usage = await readFile(join(place, 'usage.ts'), 'utf8');
  await writeFile(join(place, 'usage.ts'), usage.replace('./client.ts', 'hotel-api-client'));
  await writeFile(join(place, 'package.json'), '{"type":"module"}');
  const types = ['--typeRoots', join(ROOT, 'node_modules/@types'), '--types', 'node'];
  const strict = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', ...types];
  await run(join(ROOT, 'node_modules/.bin/tsc'), [...strict, 'usage.ts'], inside);
  expect(await run(process.execPath, ['--no-warnings', 'usage.ts'], inside)).toContain(`${HOTELS} hotels\n`);
});

it.each(['relative', 'absolute'])(
  'below a base path that begins like one of theirs, with %s links, all examples find all pages',
  async (links) => {
    const basePath = '/hotels-api';
    const ports = { port: await ownPort(), adminPort: await ownPort() };
    const publicUrl = links === 'absolute' && { PUBLIC_URL: `http://127.0.0.1:${ports.port}` };
    const env = { BASE_PATH: basePath, ...publicUrl };
    const own = await startService({ database: service.database, ports, env });
    const url = own.url + basePath;
    for (const [yes, program, ...options] of [
      ['true', process.execPath, '--no-warnings', 'usage.ts'],
      ['True', 'python3', 'client.py'],
    ] as const) {
      const lines = [`Grand Hotel Meridian Saint-Pryvé-Saint-Mesmin ${yes}`, `${HOTELS} of 2500 found`];
      expect(await runExample(program, options, url)).toBe(`${[...lines, `${HOTELS} hotels`].join('\n')}\n`);
    }
    const printed = await runExample('sh', ['-euc', sectionOf('curl.sh', 'paging')], url);
    expect(printed.match(/"registry_id":/g)).toHaveLength(HOTELS);
    await own.stop();
  },
);

describe.each(CLIENTS)('mirror() in %s', (_, program, options) => {
  /** Has a copy updated once for each step, with changes before it, and returns what each has printed. */
  function mirror(url: string, copy: object, steps: object[], more = {}): Promise<unknown[]> {
    const calls = steps.map((step) => ['mirror', step]);
    return programs.drive(program, options, { calls, copy, ...more }, url);
  }
  const sized = (value: number) => ({ value });
  const failed = (size: number) => expect.objectContaining({ message: expect.any(String), size });

  it('copies all hotels, continues, and restarts after 410', async () => {
    const { next } = (await service.get('/changes?limit=1000')).json();
    await service.sql`select hotel_api_invalidate()`;
    await untilSequenced(service.sql);
    const steps = [{}, { drop: 'hotel 1/ä' }, { next }];
    expect(await mirror(service.url, {}, steps)).toEqual([HOTELS, HOTELS - 1, HOTELS].map(sized));
  });

  it('continues after an error, and drops a copy without a token', async () => {
    const { url, seen } = await startFront(service.port, { 2: { status: 400 }, 6: { status: 400 } });
    expect(await mirror(url, {}, [{}, {}])).toEqual([failed(1000), sized(HOTELS)]);
    const gone = { hotels: { gone: {} } };
    expect(await mirror(url, gone, [{}, { waitS: 1000 }])).toEqual([failed(1), sized(HOTELS)]);
    const begun = seen.filter(({ path }) => !path.includes('after='));
    expect([seen.length, begun.length]).toEqual([9, 3]);
  });

  it('rejects what is no page of changes, and does not begin again for ever', async () => {
    const pages = [
      '<title>Maintenance</title>',
      '{"changes":[],"more":false}',
      '{"changes":[{"id":"a"}],"next":"t","more":false}',
      '{"changes":[{"id":"a","hotel":{"id":"b"}}],"next":"t","more":false}',
    ];
    const headers = { 'x-error-code': 'token_expired' };
    const replies: FrontFault[] = [
      // each twice, because it is retried
      ...pages.flatMap((body) => [200, 200].map((status) => ({ status, body }))),
      { status: 410, body: 'of a gateway' },
      ...[410, 410].map((status) => ({ status, headers })),
    ];
    const numbered = replies.map((reply, i) => [i + 1, reply]);
    const { url, seen } = await startFront(service.port, Object.fromEntries(numbered));
    const copy = { hotels: { kept: {} }, next: 'a token' };
    const gone = { status: 410, id: null, size: 1 };
    const results = await mirror(url, copy, new Array(6).fill({}), { maxAttempts: 2 });
    expect(results).toEqual([
      ...pages.map(() => failed(1)),
      { ...gone, message: '410 not a response of the hotel API, check the address', code: null },
      { ...gone, message: expect.stringMatching(/^410 Later/), code: 'token_expired' },
    ]);
    expect(seen).toHaveLength(replies.length);
  });
});

describe('the examples with curl', () => {
  it('work unchanged, to the last page', async () => {
    const printed = await runExample('sh', ['curl.sh']);
    expect(printed).toContain('304\n');
    for (let i = 0; i < HOTELS; i++) {
      const isThere = printed.includes(`"channel_id":"CH${FIRST.channel + i}"`);
      if (!isThere) expect.fail(`CH${FIRST.channel + i} was on no page`);
    }
    const found = printed.match(/"id":"htl_sliji9ej"/g);
    // three times singly, three times in batches, on its page, as a change, once more with its tag, and again at the end
    expect(found).toHaveLength(11);
  });

  it.each<[string, FrontFault, minMs: number]>([
    ['503, when Retry-After is over', { status: 503, retryAfterS: 1 }, 980],
    ['a connection that was cut', 'cut', 0],
    ['a body that was cut', 'cut body', 0],
  ])('repeat a request after %s', async (_, rejection, minMs) => {
    const { url, seen } = await startFront(service.port, { 1: rejection });
    const script = sectionOf('curl.sh', 'retries');
    expect(JSON.parse(await runExample('sh', ['-euc', script], url)).id).toBe('htl_sliji9ej');
    expect(seen).toHaveLength(2);
    expect(seen[1]!.atMs - seen[0]!.atMs).toBeGreaterThanOrEqual(minMs);
  });

  it.each(['paging', 'mirror'])('end the loop of %s at a failure', async (section) => {
    const rejection = { status: 429, retryAfterS: 3_600 };
    const { url, seen } = await startFront(service.port, { 2: rejection });
    await expect(runExample('sh', ['-euc', sectionOf('curl.sh', section)], url)).rejects.toMatchObject({
      code: 1,
    });
    expect(seen).toHaveLength(2);
  });
});
