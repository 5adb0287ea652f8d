import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { ExpectedHotel } from '../../bench/hotels.ts';
import { closedLoop } from '../../bench/load/closed.ts';
import { single } from '../../bench/scenarios.ts';
import { verify } from '../../bench/verify.ts';
import { temporaryFolder } from '../support/cleanup.ts';

const MAIN = fileURLToPath(new URL('../../bench/main.ts', import.meta.url));
const HOTELS = 200;

const run = (...args: string[]) => promisify(execFile)(process.execPath, [MAIN, ...args]);

describe('a small run', () => {
  it('measures the service and the upper bound, and writes the results', async () => {
    const folder = await temporaryFolder('bench-');
    const small = `--quick --only batch-10 --beside limit --hotels ${HOTELS} --rounds 1`;
    const { stdout } = await run(...small.split(' '), '--out', folder);
    expect((await readdir(folder)).sort()).toEqual(['partial-processor-time.svg', 'partial.json']);
    const results = JSON.parse(await readFile(join(folder, 'partial.json'), 'utf8'));
    const round = {
      requests: expect.any(Number),
      seconds: expect.any(Number),
      p50Us: expect.any(Number),
      p99Us: expect.any(Number),
      faults: [],
      faultCount: 0,
      processorUs: expect.any(Number),
      busy: expect.any(Number),
    };
    const ofService = { ...round, localMisses: 0 };
    expect(results).toMatchObject({
      quick: true,
      machine: { node: process.versions.node, cores: expect.any(Number) },
      hotels: HOTELS,
      meanHotelBytes: expect.any(Number),
      cells: [
        { scenario: 'batch-10', target: 'service', rounds: [ofService] },
        { scenario: 'batch-10', target: 'limit', rounds: [round] },
      ],
      sweep: [],
      probes: [],
      compression: [],
      autocannon: [],
    });
    for (const { rounds } of results.cells) {
      for (const { requests, seconds, processorUs, p50Us, p99Us } of rounds) {
        expect(requests).toBeGreaterThan(10);
        expect(seconds).toBeGreaterThan(0.9);
        expect(processorUs).toBeGreaterThan(0);
        expect(p99Us).toBeGreaterThanOrEqual(p50Us);
      }
    }
    expect(stdout).toMatch(/^batch of 10 by channel id\n.*\n +this service +\d+/m);
    expect(stdout).toMatch(/^ +upper bound: a constant body +\d+/m);
  });
});

describe('a server under test', () => {
  const json = JSON.stringify({ id: 'a', name: 'A', registry_id: 7 });
  const hotel: ExpectedHotel = {
    id: 'a',
    channelId: null,
    json,
    fullBytes: json.length,
    narrowBytes: json.replace('7', 'null').length,
  };
  const call = single(hotel, 'id', 'hk_any', true);

  it.each([
    ['the content of PostgreSQL', 200, json, undefined, 0],
    ['other bytes of the same length', 200, json.replace('A', 'B'), /differs from PostgreSQL/, 0],
    ['fewer bytes', 200, json.slice(1), /bytes instead of/, 20],
    ['another status', 503, json, /status 503 instead of 200/, 20],
  ])('that returns %s is detected', async (_, status, body, reason, faultCount) => {
    const server = createServer((_, response) =>
      response.writeHead(status, { 'content-length': body.length }).end(body),
    );
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const target = { name: 'limit', port, pid: process.pid, stop: async () => {} } as const;
    if (reason) await expect(verify(target, [call])).rejects.toThrow(reason);
    else await verify(target, [call]);
    const load = { connections: 2, seconds: 10, requests: 20 };
    const result = await closedLoop(port, [call], load);
    // the measurement compares statuses and lengths only
    expect(result).toMatchObject({ requests: 20, faultCount });
    if (faultCount > 0) expect(result.faults[0]).toMatch(reason!);
    server.closeAllConnections();
    server.close();
  });
});
