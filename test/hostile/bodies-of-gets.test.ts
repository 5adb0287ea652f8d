import { beforeAll, describe, expect, it } from 'vitest';
import { workersOf } from '../support/memory.ts';
import { needs } from '../support/needs.ts';
import { byDefault, documented, startNginx } from '../support/nginx.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { type Service, startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';

await needs('nginx');

const ROUNDS = 6;
let service: Service;
let pids: number[];

beforeAll(async () => {
  service = await startService({ workers: 2, hotels: [{ id: 'h1' }] });
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

describe('behind nginx, a keyless client that sends bodies with GET', () => {
  it.each([
    ['by default', byDefault],
    ['as documented', documented],
  ] as const)('receives 400 each time, and no request of others fails: set %s', async (_, configuration) => {
    const port = await startNginx([service.port, service.port], configuration);
    const { text: answer } = await service.get('/hotels/h1');
    const { fullKey } = service;
    const others = new SteadyLoad({ port, fullKey }, [{ path: '/hotels/h1', answer }]);
    const statuses: (number | undefined)[] = [];
    for (let round = 0; round < ROUNDS; round++)
      for (const request of HOSTILE) {
        const connection = new RawConnection(port);
        void connection.write(request);
        statuses.push((await connection.read())?.status);
        connection.close();
        await others.answers(5);
      }
    expect(new Set(statuses)).toEqual(new Set([400]));
    expect(await others.stop()).toMatchObject(ALL_ANSWERED);
    expect((await service.workerPids()).sort()).toEqual(pids);
  });
});
