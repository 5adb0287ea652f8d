import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Outcome, startProgram } from '../cli/program.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { freshDatabase } from '../support/database.ts';
import { promisedMs } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { stalledIn } from '../support/stall-detector.ts';

let service: Service;

beforeAll(async () => {
  const hotels = Array.from({ length: 100 }, (_, i) => ({ id: `h${i}`, registry_id: i + 1 }));
  service = await startService({ workers: 2, hotels });
});

/** Runs the command, by default for 3 seconds against the service. */
async function check(
  key: string,
  {
    url = service.url,
    databaseUrl = service.database.url,
    duration = '3s',
    promiseMs,
  }: { url?: string; databaseUrl?: string; duration?: string; promiseMs?: number } = {},
): Promise<Outcome> {
  const command = ['check-freshness', '--url', url, '--for', duration, '--json'];
  if (promiseMs !== undefined) command.push('--promise-ms', String(promiseMs));
  return startProgram(command, { DATABASE_URL: databaseUrl, HOTEL_API_KEY: key }).outcome;
}

/** Changes hotels until it is stopped. */
function write(): () => Promise<void> {
  let stopped = false;
  const writing = (async () => {
    for (let i = 0; !stopped; i++) {
      await service.sql`update hotels set name = ${`v${i}`}, room_count = ${i} where id = ${`h${i % 100}`}`;
      if (i % 10 === 0) await service.sql`delete from hotels where id = 'h5'`;
      if (i % 10 === 5) await service.insert({ id: 'h5', name: `again ${i}` });
      await sleep(20);
    }
  })();
  return async () => {
    stopped = true;
    await writing;
  };
}

/**
 * Runs the checker until it has compared enough while this process, and so the machine, did not stall for long. The
 * command reports responses as late if it reads them late.
 */
async function checkUndisturbed(key: string) {
  for (const seconds of [3, 6, 12]) {
    const outcome = await check(key, { duration: `${seconds}s`, promiseMs: promisedMs(1_000) });
    const report = JSON.parse(outcome.stdout);
    const enough = report.changes > 20 && report.answers > 500;
    if ((enough && stalledIn(1_000 * seconds) < 200) || seconds === 12) return { ...outcome, report };
  }
  throw new Error('unreachable');
}

/** Starts a proxy that goes on answering the hotels of this moment. */
async function startStaleProxy(): Promise<string> {
  const tags = new Map<string, string>();
  for (let i = 0; i < 100; i++) {
    const { headers } = await service.get(`/hotels/h${i}`);
    tags.set(`/hotels/h${i}`, headers.etag!);
  }
  const server = createServer(async ({ url = '' }, response) => {
    const etag = tags.get(url);
    if (etag !== undefined) return response.writeHead(200, { etag }).end();
    const { status, text } = await service.get(url);
    return response.writeHead(status).end(text);
  });
  return listen(server);
}

async function listen(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  closeAtEnd('a proxy', async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('check-freshness', () => {
  it.each(['full', 'narrow'] as const)(
    'finds no fault in a healthy service, and measures the lag (%s key)',
    async (key) => {
      const stop = write();
      const { code, stdout, stderr, report } = await checkUndisturbed(
        key === 'full' ? service.fullKey : service.narrowKey,
      );
      await stop();
      expect([code, stderr]).toEqual([0, '']);
      console.log(stdout);
      expect(report.changes).toBeGreaterThan(20);
      expect(report.answers).toBeGreaterThan(500);
      expect(report.lag_ms.median).toBeLessThan(promisedMs(100));
      expect(report.lag_ms.max).toBeLessThan(promisedMs(1_000));
      expect(report.mirror_changes).toBeGreaterThan(10);
      expect(report.mirror_lag_ms.max).toBeLessThan(promisedMs(1_000));
      expect(report.stale).toEqual([]);
    },
  );

  it('rejects an invalid key', async () => {
    const { code, stderr } = await check('hk_wrong');
    expect(code).toBe(1);
    expect(stderr).toMatch(/responded with 401/);
  });

  describe('fails if nothing was compared', () => {
    it('because the deployment rejects everything; no change counts as visible', async () => {
      const url = await listen(createServer((_, response) => response.writeHead(503).end()));
      const stop = write();
      const { code, stdout, stderr } = await check('hk_any', { url });
      await stop();
      expect(stderr).toMatch(/nothing was compared: all \d+ requests were rejected \(503\)/);
      expect(code).toBe(1);
      expect(JSON.parse(stdout)).toMatchObject({ answers: 0, changes: 0, stale: [] });
    });

    it('because there is no hotel', async () => {
      const { url: databaseUrl } = await freshDatabase();
      const { code, stderr } = await check(service.fullKey, { databaseUrl, duration: '1s' });
      expect(code).toBe(1);
      expect(stderr).toContain('nothing was compared: there are no hotels');
    });
  });

  it('reports changes that are not in the log and stale responses', async () => {
    const url = await startStaleProxy();
    await service.sql`update hotels set name = 'changed since'`;
    process.kill(service.pid, 'SIGSTOP');
    const stop = write();
    try {
      // a busy machine begins few rounds in 3 seconds
      for (const seconds of [3, 12, 48]) {
        const { code, stdout, stderr } = await check(service.fullKey, { url, duration: `${seconds}s` });
        const stale = JSON.parse(stdout).stale.join();
        if (!stale.includes('not in the log') && seconds < 48) continue;
        expect(code).toBe(1);
        expect(stale).toMatch(/committed change was not in the log/);
        expect(stale).toMatch(/hotel h\d+: older than \d+ ms/);
        expect(stderr).toMatch(/times older than promised/);
        return;
      }
    } finally {
      process.kill(service.pid, 'SIGCONT');
      await stop();
    }
  });
});
