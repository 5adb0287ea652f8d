import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { addResult, checksTimes, shortOrLong } from '../support/run-length.ts';
import { startService } from '../support/service.ts';
import { within } from '../support/stall-detector.ts';
import { Bystander } from './bystander.ts';
import { startRequests } from './requests.ts';

const CONNECTIONS = 200;
const IDS = ['h1', 'h2', 'h3'];

it('200 connections that request /metrics again and again fail no request of others', async (context) => {
  const service = await startService({ workers: 2, hotels: IDS.map((id) => ({ id })) });
  const bystander = new Bystander(service, IDS);
  await bystander.watch(500);
  const quiet = await bystander.watch(shortOrLong(1_000, 10_000));
  const scraper = { port: service.adminPort, key: '', clients: CONNECTIONS, paths: ['/metrics'] };
  const stop = await startRequests(scraper);
  bystander.start();
  await sleep(shortOrLong(3_000, 20_000));
  const meanwhile = await bystander.stop();
  // the admin port accepts fewer connections
  const { statuses, failed } = await stop();
  // it may not have noticed yet that those are closed
  const restarts = await within(
    5_000,
    () => service.metric('hotel_api_worker_restarts_total').catch(() => undefined),
    (found) => expect(found).toBeDefined(),
  );
  addResult(context, 'hostile clients', `${CONNECTIONS} connections that request /metrics again and again`, {
    "others' failures": meanwhile.wrong.length,
    "others' p99 ms": `${quiet.p99Ms.toFixed(1)} → ${meanwhile.p99Ms.toFixed(1)}`,
    'workers ended': restarts!,
    'its own answers': JSON.stringify({ ...statuses, failed }),
  });
  expect(statuses[200]).toBeGreaterThan(0);
  expect(meanwhile.wrong).toEqual([]);
  if (checksTimes) expect(meanwhile.p99Ms).toBeLessThan(quiet.p99Ms + 100);
});
