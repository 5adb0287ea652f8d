import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import { hotelAt } from '../../src/cli/seed/hotel.ts';
import { needsPackages } from '../support/own-packages.ts';
import { type Service, startService } from '../support/service.ts';

const HOTELS = 2_000;
/** Rows at the bounds of what may be stored. */
const ODD = [
  {
    id: 'odd/ä ?#%',
    channel_id: 'a b/ü"\\',
    registry_id: -9007199254740991n,
    email: "o'hara+tag_1@sub.example.co.uk",
    website_url: 'HTTPS://xn--gre-6ka.de:8080/a%20b;c?q=(1)&r=%C3%A4',
  },
  {
    id: 'odd longest',
    registry_id: 9007199254740991n,
    images: [{ url: `https://img.example/${'a'.repeat(2048 - 20)}`, caption: '\u2028 "🏨"' }],
    latitude: -90,
    longitude: 180,
    star_rating: 0.5,
    room_count: 2_147_483_647,
  },
];

const folder = await needsPackages(join(import.meta.dirname, 'generated-clients'));
let service: Service;

/** Runs a program of the packages, or Node with a file; returns its output. */
async function run(program: string, ...options: string[]): Promise<string> {
  const path = program === 'node' ? process.execPath : join(folder, 'node_modules/.bin', program);
  const { stdout } = await promisify(execFile)(path, options, {
    cwd: folder,
    env: { ...process.env, NO_COLOR: '1', HOTEL_API_URL: service.url, HOTEL_API_KEY: service.fullKey },
  });
  return stdout;
}

beforeAll(async () => {
  const today = new Date().toISOString().slice(0, 10);
  const hotels = Array.from({ length: HOTELS - ODD.length }, (_, i) => hotelAt(i, 1, today));
  service = await startService({ hotels: [...hotels, ...ODD] as never });
  const document = await service.get('/openapi.json', { key: 'none' });
  await writeFile(join(folder, 'openapi.json'), document.text);
});

it.each([
  [
    'hey-api',
    ['openapi-ts', '-f', 'hey-api.config.mjs'],
    { odd: ODD[0]!.id, missing: [404, 'Hotel not found'] },
  ],
  [
    'orval',
    ['orval', '--config', 'orval.config.mjs'],
    { odd: ODD[0]!.id, missing: [404, 'Hotel not found'] },
  ],
  // does not encode ids in paths, and has no error of its own
  ['kubb', ['kubb', 'generate', '--config', 'kubb.config.mjs'], {}],
])('the client that %s generates compiles, and finds every hotel valid', async (name, command, more) => {
  await run(...(command as [string]));
  const strict = ['--strict', '--noUncheckedIndexedAccess', '--skipLibCheck', '--types', 'node'];
  const modern = ['--target', 'es2022', '--module', 'esnext', '--moduleResolution', 'bundler'];
  await run(
    'tsc',
    '--ignoreConfig',
    '--noEmit',
    '--allowImportingTsExtensions',
    ...strict,
    ...modern,
    `${name}.ts`,
  );
  await run('esbuild', `${name}.ts`, '--bundle', '--platform=node', '--format=esm', `--outfile=${name}.mjs`);
  expect(JSON.parse(await run('node', `${name}.mjs`))).toEqual({
    listed: HOTELS,
    copied: HOTELS,
    one: true,
    batch: [true],
    ...more,
  });
});
