import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { needs } from '../support/needs.ts';
import { byDefault, documented, startNginx } from '../support/nginx.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { addResult, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { Bystander } from './bystander.ts';
import { workersOf } from './memory.ts';

const EVERY_MS = 100;
const UNDER_ATTACK_MS = shortOrLong(3_000, 30_000);
const IDS = ['h1', 'h2', 'h3'];

await needs('nginx');

let service: Service;
let pids: number[];

beforeAll(async () => {
  service = await startService({ workers: 2, hotels: IDS.map((id) => ({ id })) });
  pids = await workersOf(service, 2);
});

/** Requests that any client of the proxy may send without a key. */
const HOSTILE = [
  'GET /hotels/h1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello',
  'GET /hotels HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  'GET /docs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello',
  'GET /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello',
  `GET /hotels/h1 HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n${'x'.repeat(500_000)}`,
];

/** Returns the status of the response; 0 for none. */
async function send(port: number, request: string): Promise<number> {
  const connection = new RawConnection(port);
  void connection.write(request);
  const response = await connection.read();
  connection.close();
  return response?.status ?? 0;
}

describe('behind nginx, a keyless client that sends bodies with GET', () => {
  it.for([
    ['by default', byDefault],
    ['as documented', documented],
  ] as const)(
    'receives 400 each time, and no request of others fails: set %s',
    async ([set, configuration], context) => {
      const port = await startNginx([service.port, service.port], configuration);
      const bystander = new Bystander({ port, fullKey: service.fullKey }, IDS);
      const quiet = await bystander.watch(shortOrLong(500, 5_000));
      const statuses: number[] = [];
      bystander.start();
      const untilMs = performance.now() + UNDER_ATTACK_MS;
      for (let sent = 0; performance.now() < untilMs; sent++) {
        statuses.push(await send(port, HOSTILE[sent % HOSTILE.length]!));
        await sleep(EVERY_MS);
      }
      const meanwhile = await bystander.stop();
      addResult(context, 'hostile clients', `GETs with bodies, ten a second, nginx set ${set}`, {
        "others' failures": meanwhile.wrong.length,
        "others' p99 ms": `${quiet.p99Ms.toFixed(1)} → ${meanwhile.p99Ms.toFixed(1)}`,
      });
      expect(statuses.filter((status) => status !== 400)).toEqual([]);
      expect(meanwhile.wrong).toEqual([]);
      expect((await service.workerPids()).sort()).toEqual(pids);
    },
  );
});
