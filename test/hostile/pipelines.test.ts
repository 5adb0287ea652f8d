import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { addResult, checksTimes, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { Bystander } from './bystander.ts';
import { LoadThread } from './load-thread.ts';
import { workersOf } from './memory.ts';
import type { PipelineCounts, PipelineOptions } from './pipelines-thread.ts';

const CONNECTIONS = 32;
const IDS = ['h1', 'h2', 'h3'];
const REQUEST = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

let service: Service;
let pids: number[];

beforeAll(async () => {
  service = await startService({ workers: 2, hotels: IDS.map((id) => ({ id })) });
  pids = await workersOf(service, 2);
});

it('32 keyless connections that pipeline 16 Mbit/s are closed, no request of others fails, no worker exits', async (context) => {
  const bystander = new Bystander(service, IDS);
  await bystander.watch(500);
  const quiet = await bystander.watch(shortOrLong(1_000, 10_000));
  bystander.start();
  const options: PipelineOptions = {
    port: service.port,
    connections: CONNECTIONS,
    bytesPerSecond: 2_000_000,
    request: REQUEST,
  };
  const thread = new LoadThread<PipelineCounts>('./pipelines-thread.ts', options);
  await thread.ready;
  thread.start();
  await sleep(shortOrLong(6_000, 30_000));
  const counts = await thread.stop();
  const meanwhile = await bystander.stop();
  addResult(
    context,
    'hostile clients',
    `${CONNECTIONS} keyless connections, 16 Mbit/s of pipelined requests`,
    {
      "others' failures": meanwhile.wrong.length,
      "others' p99 ms": `${quiet.p99Ms.toFixed(1)} → ${meanwhile.p99Ms.toFixed(1)}`,
    },
  );
  expect(counts.closed).toBeGreaterThan(0);
  expect(meanwhile.wrong).toEqual([]);
  expect((await service.workerPids()).sort()).toEqual(pids);
  // the duration of an iteration depends on other processes
  if (checksTimes) expect(meanwhile.p99Ms).toBeLessThan(quiet.p99Ms + 100);
});

it('two hundred pipelined requests are all served', async () => {
  const answers = await service.raw(
    REQUEST.repeat(199) + REQUEST.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
    { silenceMs: 60_000 },
  );
  expect(answers.toString().match(/HTTP\/1\.1 404 /g)).toHaveLength(200);
});
