import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Hotel } from '../../src/hotels/hotel.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { Client, type HttpResponse } from '../support/client.ts';
import { startDemo } from '../support/demo.ts';
import { needsPackages } from '../support/own-packages.ts';
import { ownPort } from '../support/own-port.ts';

const execute = promisify(execFile);

let port: number;
let keys: { full: string; narrow: string };
let hotels: Hotel[];

const folder = await needsPackages(join(import.meta.dirname, 'api-tools'));

beforeAll(async () => {
  const demo = await startDemo([process.execPath, 'src/demo/main.ts']);
  closeAtEnd('demo', async () => {
    process.kill(demo.pid, 'SIGTERM');
    await demo.ended;
  });
  ({ port } = demo);
  const [full, narrow] = demo.screen.join('\n').match(/hk_\w+/g)!;
  keys = { full: full!, narrow: narrow! };
  const client = new Client(port, keys);
  closeAtEnd('client', async () => client.close());
  hotels = (await client.request('/hotels?limit=100', {})).json();
  await writeFile(
    join(folder, 'openapi.json'),
    (await client.request('/openapi.json', { key: 'none' })).text,
  );
});

it("Spectral's recommended rules find nothing in the document", async () => {
  await writeFile(join(folder, 'ruleset.yaml'), 'extends: ["spectral:oas"]\n');
  const options = ['lint', '--ruleset', 'ruleset.yaml', '--format', 'json', '--quiet', 'openapi.json'];
  const { stdout } = await execute(join(folder, 'node_modules/.bin/spectral'), options, {
    cwd: folder,
  }).catch((error: { stdout: string }) => error);
  expect(JSON.parse(stdout)).toEqual([]);
});

describe('Prism, as a proxy that validates, in front of the demo', () => {
  let client: Client;
  beforeAll(async () => {
    const front = await ownPort();
    const options = ['proxy', 'openapi.json', `http://127.0.0.1:${port}`, '--port', String(front)];
    const prism = spawn(join(folder, 'node_modules/.bin/prism'), options, { cwd: folder });
    const exited = once(prism, 'exit');
    closeAtEnd('Prism', async () => {
      prism.kill();
      await exited;
    });
    for await (const line of createInterface(prism.stdout)) if (line.includes('listening')) break;
    prism.stdout.resume();
    prism.stderr.resume();
    client = new Client(front, keys);
    closeAtEnd('client', async () => client.close());
  });

  /** Returns Prism's complaints about the response, or about a valid request. */
  function violationsOf(response: HttpResponse, status: number): unknown[] {
    const found = JSON.parse(String(response.headers['sl-violations'] ?? '[]')) as { location: string[] }[];
    return found.filter(({ location }) => status < 400 || location[0] === 'response');
  }

  async function send(
    method: string,
    path: string,
    status: number,
    { key, headers, body }: { key?: string; headers?: object; body?: string } = {},
  ): Promise<void> {
    const options = { method, ...(key && { key }), headers: { ...headers } as never };
    const response = await client.request(path, options, body === undefined ? undefined : Buffer.from(body));
    const said = [method, path, response.status, violationsOf(response, status)];
    expect([...said, response.status >= 400 && response.text]).toEqual([
      ...[method, path, status, []],
      status >= 400 && expect.stringMatching(/^\{"error":"[^"]+"\}$|^$/),
    ]);
  }

  it('finds no fault in some 300 requests, and passes all on', async () => {
    let requested = 0;
    const count = async (...request: Parameters<typeof send>) => {
      requested++;
      await send(...request);
    };
    for (const [i, { id, channel_id, registry_id }] of hotels.slice(0, 40).entries()) {
      const key = i % 3 === 0 ? 'narrow' : 'full';
      await count('GET', `/hotels/${encodeURIComponent(id)}`, 200, { key });
      if (channel_id !== null)
        await count('GET', `/hotels/channel/${encodeURIComponent(channel_id)}`, 200, { key });
      if (registry_id !== null) await count('GET', `/hotels/registry/${registry_id}`, 200);
      await count('GET', `/hotels?limit=${1 + 2 * i}&offset=${4 * i}`, 200, { key });
      const channel_ids = hotels.slice(i, 3 * i).flatMap((hotel) => hotel.channel_id ?? []);
      await count('POST', '/hotels/channel/batch', 200, { key, body: JSON.stringify({ channel_ids }) });
      const registry_ids = hotels
        .slice(i, 3 * i)
        .map((hotel, at) => (at % 2 ? hotel.registry_id : String(at)));
      await count('POST', '/hotels/registry/batch', 200, {
        body: JSON.stringify({ registry_ids: registry_ids.filter((each) => each !== null) }),
      });
      await count('GET', `/hotels/unknown-${i}`, 404, { key });
    }
    for (const path of ['/hotels', `/hotels/${hotels[0]!.id}`, '/hotels?limit=100', '/hotels/none']) {
      for (const coding of ['gzip', 'br', 'identity'])
        await count('GET', path, path === '/hotels/none' ? 404 : 200, {
          headers: { 'accept-encoding': coding },
        });
      await count('GET', path, 401, { key: 'unknown' });
    }
    await count('GET', '/hotels/registry/1', 403, { key: 'narrow' });
    await count('GET', '/hotels?registry_id=1', 403, { key: 'narrow' });
    await count('GET', '/hotels?registry_id=1', 200);
    await count('GET', '/hotels?limit=0', 400);
    await count('GET', '/hotels?offset=-1', 400);
    await count('GET', '/hotels/registry/x', 400);
    for (const body of ['{}', '{"channel_ids":[1]}', '{"channel_ids":"x"}'])
      await count('POST', '/hotels/channel/batch', 400, { body });
    await count('POST', '/hotels/registry/batch', 400, { body: '{"registry_ids":[1.5]}' });
    expect(requested).toBeGreaterThan(280);
  });

  it('finds no fault in unchanged responses', async () => {
    for (const path of ['/hotels?limit=3', `/hotels/${hotels[0]!.id}`])
      await send('GET', path, 304, { headers: { 'if-none-match': '*' } });
  });
});
