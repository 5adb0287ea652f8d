import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { hotelAt } from '../../src/cli/seed/hotel.ts';
import { lacks, type Need } from '../support/needs.ts';
import { needsPackages } from '../support/own-packages.ts';
import { type Service, startService } from '../support/service.ts';

const HOTELS = 1_500;
/** Size of 1000 hotels: less than this if they are compressed, more if not. */
const COMPRESSED_BYTES = 400_000;

const folder = await needsPackages(join(import.meta.dirname, 'http-clients'));

/** name, what it needs, command, whether it asks for compression by itself */
const CLIENTS: [string, Need[], string[], boolean][] = [
  ['axios', [], [process.execPath, '--no-warnings', 'calls.ts', 'axios'], true],
  ['got', [], [process.execPath, '--no-warnings', 'calls.ts', 'got'], true],
  ['undici', [], [process.execPath, '--no-warnings', 'calls.ts', 'undici'], false],
  ['fetch', [], [process.execPath, '--no-warnings', 'calls.ts', 'fetch'], true],
  ['requests', ['python3-requests'], ['/usr/bin/python3', 'calls.py', 'requests'], true],
  ['httpx', ['python3-httpx'], ['/usr/bin/python3', 'calls.py', 'httpx'], true],
  ['aiohttp', ['python3-aiohttp'], ['/usr/bin/python3', 'calls.py', 'aiohttp'], true],
];

let service: Service;
let firstId: string;

beforeAll(async () => {
  const today = new Date().toISOString().slice(0, 10);
  const hotels = Array.from({ length: HOTELS }, (_, i) => hotelAt(i, 1, today));
  service = await startService({ hotels: hotels as never });
  firstId = (await service.get('/hotels?limit=1')).json()[0].id;
});

for (const [name, wanted, [program, ...options], packs] of CLIENTS)
  describe.skipIf(await lacks(...wanted))(name, () => {
    it('gets what it is promised with its defaults', async () => {
      const sent = () =>
        service.metric('hotel_api_response_body_bytes_total', { http_route: '/hotels/channel/batch' });
      const before = await sent();
      const { stdout } = await promisify(execFile)(program!, options, {
        cwd: folder,
        env: { ...process.env, HOTEL_API_URL: service.url, HOTEL_API_KEY: service.fullKey },
      });
      expect(JSON.parse(stdout)).toEqual({
        listed: HOTELS,
        single: [200, firstId],
        head: [200, true, 0],
        unchanged: [304, 0],
        missing: [404, 'hotel_not_found', 'Hotel not found'],
        unauthorized: [401, 'unauthorized', 'ApiKey'],
        batch: [200, 1000, true],
      });
      expect((await sent()) - before < COMPRESSED_BYTES).toBe(packs);
    });
  });
