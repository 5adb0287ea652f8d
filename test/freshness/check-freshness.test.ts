import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Service, startService } from '../support/service.ts';

let service: Service;

beforeAll(async () => {
  const hotels = Array.from({ length: 100 }, (_, i) => ({ id: `h${i}`, registry_id: i + 1 }));
  service = await startService({ workers: 2, hotels });
});

/** Runs the command for 3 seconds. */
async function check(key: string): Promise<{ code: number; stdout: string; stderr: string }> {
  const command = ['src/main.ts', 'check-freshness', '--url', service.url, '--for', '3s', '--json'];
  const child = spawn(process.execPath, command, {
    env: { PATH: process.env.PATH, DATABASE_URL: service.database.url, HOTEL_API_KEY: key },
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (text) => (stdout += text));
  child.stderr.on('data', (text) => (stderr += text));
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}

/** Changes hotels until stopped. */
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

describe('check-freshness', () => {
  it.each(['full', 'narrow'] as const)(
    'finds nothing wrong with a healthy service, and measures the lag (%s key)',
    async (key) => {
      const stop = write();
      const { code, stdout, stderr } = await check(key === 'full' ? service.fullKey : service.narrowKey);
      await stop();
      expect([code, stderr]).toEqual([0, '']);
      const report = JSON.parse(stdout);
      console.log(stdout);
      expect(report.changes).toBeGreaterThan(20);
      expect(report.answers).toBeGreaterThan(500);
      expect(report.lag_ms.median).toBeLessThan(100);
      expect(report.lag_ms.max).toBeLessThan(1_000);
      expect(report.stale).toEqual([]);
    },
  );

  it('is refused without a valid key', async () => {
    const { code, stderr } = await check('hk_wrong');
    expect(code).toBe(1);
    expect(stderr).toMatch(/answers 401/);
  });

  it('says so when changes are not told and old answers are given', async () => {
    for (let i = 0; i < 100; i++) await service.get(`/hotels/h${i}`);
    const stop = write();
    process.kill(service.pid, 'SIGSTOP');
    try {
      const { code, stdout, stderr } = await check(service.fullKey);
      expect(code).toBe(1);
      expect(JSON.parse(stdout).stale.join()).toMatch(/committed and not told/);
      expect(JSON.parse(stdout).stale.join()).toMatch(/hotel h\d+: older than \d+ ms/);
      expect(stderr).toMatch(/times older than promised/);
    } finally {
      process.kill(service.pid, 'SIGCONT');
      await stop();
    }
  });
});
