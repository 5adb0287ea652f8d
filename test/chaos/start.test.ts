import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { needs } from '../support/needs.ts';
import { addResult, promisedMs, shortOrLong } from '../support/run-length.ts';
import type { Service } from '../support/service.ts';
import { hotelBody } from './hotels.ts';
import { now } from './sample.ts';
import { Fixture } from './service-fixture.ts';

await needs('redis-server');

let fixture: Fixture;

beforeAll(async () => {
  fixture = await Fixture.set({ hotels: 200, warm: 100 });
});

/** Starting Node takes a third of it, and three times as long on a busy machine. */
const READY_MS = promisedMs(2_000);
const OUTAGE_MS = () => shortOrLong(1_000, 5_000);
const POLL = { interval: 10, timeout: 60_000 };

interface Outage {
  begin: () => Promise<unknown> | unknown;
  end: () => Promise<unknown> | unknown;
}

/** Starts a second instance during an outage, repairs it, and returns the time from the repair to readiness, ms. */
async function readyAfter(fault: Outage, readyMeanwhile: boolean): Promise<number> {
  await fault.begin();
  let service: Service | undefined;
  try {
    service = await fixture.another({ awaitReady: false });
    const status = async (path: string) => (await service!.admin(path).catch(() => undefined))?.status;
    await expect.poll(() => status('/livez'), POLL).toBe(200);
    if (readyMeanwhile) await service.ready();
    await sleep(OUTAGE_MS());
    expect(await status('/livez')).toBe(200);
    expect(await status('/readyz')).toBe(readyMeanwhile ? 200 : 503);
    await fault.end();
    const repairedMs = now();
    await expect.poll(() => status('/readyz'), POLL).toBe(200);
    const readyMs = now() - repairedMs;
    const response = await service.get('/hotels/chaos-7');
    expect([response.status, response.text]).toEqual([200, hotelBody(7)]);
    return readyMs;
  } finally {
    await fault.end();
    await service?.stop();
  }
}

async function startWhile(
  context: TestContext,
  name: string,
  fault: Outage,
  readyMeanwhile: boolean,
): Promise<void> {
  const readyMs = await readyAfter(fault, readyMeanwhile);
  addResult(context, 'faults', name, {
    'ready after': readyMeanwhile ? 'at once' : `${Math.round(readyMs)} ms`,
  });
  expect(readyMs).toBeLessThanOrEqual(READY_MS);
}

describe('a service that starts while', () => {
  for (const [sentence, dependency, fault] of [
    ['PostgreSQL rejects connections', 'postgres', 'reject'],
    ['PostgreSQL is behind a black hole', 'postgres', 'blackout'],
    ['Redis rejects connections', 'redis', 'reject'],
    ['Redis is behind a black hole', 'redis', 'blackout'],
  ] as const) {
    it(`${sentence} is alive, and is ready within 2 s of the time from which it can serve`, (context) => {
      const { proxy } = fixture[dependency];
      return startWhile(
        context,
        `start while ${sentence}`,
        { begin: () => proxy[fault](), end: () => proxy.heal() },
        dependency === 'redis',
      );
    });
  }

  it('its new connections become half-open', async (context) => {
    let stranding: NodeJS.Timeout;
    await startWhile(
      context,
      'start while every connection to PostgreSQL becomes half-open',
      {
        begin: () => {
          fixture.postgres.proxy.blackout();
          stranding = setInterval(() => fixture.postgres.proxy.halfOpen(), 20);
        },
        end: async () => {
          clearInterval(stranding);
          await fixture.postgres.proxy.heal();
        },
      },
      false,
    );
  });
});
