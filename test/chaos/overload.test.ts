import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { percentile } from '../../bench/figures.ts';
import type { Address } from '../../bench/load/http-connection.ts';
import { processorTimeMs } from '../../bench/processor-time.ts';
import { residentMiB } from '../hostile/memory.ts';
import { waitedMsOf } from '../support/hold-ups.ts';
import { needs } from '../support/needs.ts';
import { addResult, checksTimes, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { closedLoop, type LoadResult, openLoop, type Request } from './checked-load.ts';
import { decision, ms } from './fault-result.ts';
import { hotelBody, hotelRow } from './hotels.ts';
import { type Path, unpacedPath } from './unpaced.ts';

await needs('redis');

const HOTELS = 3_000;
const BATCH = 1_000;
const SECONDS = shortOrLong(3, 30);
/** Delay of the load generator from which the machine counts as busy. */
const STALL_MS = 40;
const ATTEMPTS = shortOrLong(1, 3);
const ACCEPTED_P99_MS = 800;
const GROWN_MIB = 256;
/** Promises under overload. */
const PROMISED = { goodput: 0.9, rejectedP99Ms: 50 };
/** Maximum wait of the worker for a core in ms a second; beyond it other processes disturb the measurement. */
const UNDISTURBED_MS = 100;
/** Maximum lines of log a second on failed requests; a second begins with the first line after a pause. */
const LINES_PER_SECOND = 50;

const rows = Array.from({ length: HOTELS }, (_, i) => hotelRow(i));
const bodies = rows.map((_, i) => hotelBody(i));

function batches(key: string): Request[] {
  return Array.from({ length: 20 }, (_, i) => {
    const from = (i * 97) % (HOTELS - BATCH);
    const json = JSON.stringify({
      channel_ids: rows.slice(from, from + BATCH).map(({ channel_id }) => channel_id),
    });
    return {
      bytes: Buffer.from(
        `POST /hotels/channel/batch HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${key}\r\nContent-Length: ${json.length}\r\n\r\n${json}`,
      ),
      body: Buffer.from(`[${bodies.slice(from, from + BATCH).join(',')}]`),
    };
  });
}

/** Returns of the only worker: processor time, wait for a core, and memory. */
async function useOf(service: Service): Promise<{ cpuMs: number; waitedMs: number; rssMiB: number }> {
  const [pid] = (await service.workerPids()) as [number];
  return {
    waitedMs: await waitedMsOf(pid),
    cpuMs: await processorTimeMs(pid),
    rssMiB: await residentMiB([pid]),
  };
}

/** Returns responses per second of the worker's processor time, which is independent of other processes. */
async function goodput(service: Service, run: () => Promise<LoadResult>) {
  const before = await useOf(service);
  const result = await run();
  const after = await useOf(service);
  return {
    ...result,
    perCpuSecond: (1_000 * result.acceptedMs.length) / (after.cpuMs - before.cpuMs),
    perSecond: result.acceptedMs.length / result.seconds,
    waitedMsPerSecond: (after.waitedMs - before.waitedMs) / result.seconds,
    rssMiB: after.rssMiB,
  };
}

/** Requests the admin port continuously; when stopped, resolves with the slowest response and the faults. */
function watchAdmin(service: Service) {
  let over = false;
  const running = (async () => {
    let slowestMs = 0;
    const faults: string[] = [];
    for (let i = 0; !over; i++) {
      const path = ['/readyz', '/livez', '/metrics'][i % 3]!;
      const beganMs = performance.now();
      const { status } = await service.admin(path);
      slowestMs = Math.max(slowestMs, performance.now() - beganMs);
      if (status !== 200) faults.push(`${path} returned ${status}`);
      await sleep(50);
    }
    return { slowestMs, faults };
  })();
  return () => {
    over = true;
    return running;
  };
}

/**
 * Measures the capacity of a worker by a closed loop, sends a multiple of it, and checks the recovery. The cost of a response
 * is compared with that at half the capacity. A long run repeats the test on a busy machine, and skips the check if it
 * is always busy. A short run checks responses and memory, not times.
 */
async function overload(
  context: TestContext,
  name: string,
  service: Service,
  path: Path,
  times: number,
): Promise<void> {
  const to = { host: path.host, port: service.port };
  const requests = batches(service.fullKey);
  const seconds = shortOrLong(1, 10);
  for (let attempt = 1; ; attempt++) {
    const carried = await goodput(service, () => closedLoop(to, requests, { connections: 6, seconds }));
    const half = () =>
      goodput(service, () => openLoop(to, requests, { perSecond: carried.perSecond / 2, seconds }));
    const before = await half();
    const { rssMiB } = await useOf(service);
    const stopWatching = watchAdmin(service);
    const under = await goodput(service, () =>
      openLoop(to, requests, { perSecond: times * carried.perSecond, seconds: SECONDS }),
    );
    const admin = await stopWatching();
    const normal = await untilNormal(to, requests, carried.perSecond / 4);
    const after = await half();
    const share = (2 * under.perCpuSecond) / (before.perCpuSecond + after.perCpuSecond);
    const acceptedP99Ms = percentile(under.acceptedMs, 0.99);
    const rejectedP99Ms = percentile(under.rejectedMs, 0.99);
    const disturbed = under.waitedMsPerSecond > UNDISTURBED_MS || under.lateMs > STALL_MS;
    addResult(context, 'load', name, {
      'capacity a second': Math.round(carried.perSecond),
      'sent a second': Math.round(under.sent / under.seconds),
      'served a second': Math.round(under.perSecond),
      'for a second of processor time': `${Math.round(100 * share)} %`,
      'p99 of the accepted': ms(acceptedP99Ms),
      'p99 of the rejected': ms(rejectedP99Ms),
      'normal after': ms(normal),
      'congestion control': path.congestionControl,
      'waited for a core': `${Math.round(under.waitedMsPerSecond / 10)} %`,
      'memory grew by': `${Math.round(under.rssMiB - rssMiB)} MiB`,
    });
    const faults = [...carried.faults, ...before.faults, ...under.faults, ...after.faults, ...admin.faults];
    const { failed, rejected, slow } = decision({
      answers: [
        [faults.length === 0, `${faults.length} faults: ${[...new Set(faults)].slice(0, 5).join(', ')}`],
        [under.rejectedMs.length > 0, 'no request was rejected'],
        [under.rssMiB - rssMiB < GROWN_MIB, `memory grew by ${under.rssMiB - rssMiB} MiB`],
      ],
      errorReplies: [
        [before.rejectedMs.length === 0, `${before.rejectedMs.length} were rejected without overload`],
      ],
      times: [
        [
          share >= PROMISED.goodput,
          `goodput by processor time was ${share.toFixed(2)} of what it is without overload`,
        ],
        [acceptedP99Ms < ACCEPTED_P99_MS, `p99 of the accepted was ${ms(acceptedP99Ms)}`],
        [rejectedP99Ms <= PROMISED.rejectedP99Ms, `p99 of the rejected was ${ms(rejectedP99Ms)}`],
        [normal <= 5_000, 'it was not normal within 5 s'],
        [admin.slowestMs < 1_000, `the admin port took ${ms(admin.slowestMs)}`],
      ],
    });
    const said = checksTimes ? [...failed, ...rejected, ...slow] : failed;
    if (said.length === 0) return;
    if (disturbed && attempt < ATTEMPTS && failed.length === 0) continue;
    const announced = `${said.join('; ')}; the load was late by ${ms(under.lateMs)}, the worker waited ${ms(under.waitedMsPerSecond)} a second`;
    context.skip(
      disturbed && failed.length === 0,
      `the machine was busy with other things at each of ${ATTEMPTS} attempts: ${announced}`,
    );
    throw new Error(`${announced}: ${JSON.stringify(context.task.meta.result)}`);
  }
}

/** Returns the time after the load until half a second without rejections or slow responses, in ms. */
async function untilNormal(to: Address, requests: Request[], perSecond: number): Promise<number> {
  const beganMs = performance.now();
  for (;;) {
    const { acceptedMs, sent } = await openLoop(to, requests, { perSecond, seconds: 0.5 });
    const tookMs = performance.now() - beganMs;
    if (acceptedMs.length === sent && percentile(acceptedMs, 0.99) < 200) return tookMs;
    if (tookMs > 10_000) return Infinity;
  }
}

describe('an overloaded worker rejects excess requests at once', () => {
  let service: Service;
  let path: Path;
  let beganMs: number;
  beforeAll(async () => {
    path = await unpacedPath();
    service = await startService({ hotels: rows, env: { L1_MAX_BYTES: '0', HOST: '0.0.0.0' } });
    const to = { host: path.host, port: service.port };
    beganMs = performance.now();
    // into Redis; it also compiles the code of responses and rejections
    const requests = batches(service.fullKey);
    await closedLoop(to, requests, { connections: 2, seconds: 1 });
    await openLoop(to, requests, { perSecond: 1_000, seconds: 2 });
  });

  for (const times of shortOrLong([5], [2, 5])) {
    it(`with batches of 1000 in Redis at ${times} times its capacity`, (context) =>
      overload(context, `${times} times the load, batches of 1000 by Redis`, service, path, times));
  }

  it('and counts them in its metrics', async () => {
    const rejected = await service.metric('hotel_api_requests_rejected_total', { reason: 'overload' });
    expect(rejected).toBeGreaterThan(0);
    const lines = service.logs().filter((line) => line.includes('request rejected')).length;
    expect(lines).toBeLessThan(rejected);
    const lastedS = (performance.now() - beganMs) / 1_000;
    expect(lines).toBeLessThanOrEqual(LINES_PER_SECOND * Math.ceil(lastedS));
  });
});
