import { expect, it } from 'vitest';
import { RawConnection } from '../support/raw-connection.ts';
import { startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';

const REQUEST = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
/** Requests that no iteration of the event loop answers within its budget. */
const TOO_MANY = 60_000;

it('keyless connections that pipeline without end are closed, and no request of others fails', async () => {
  const service = await startService({ hotels: [{ id: 'h1' }] });
  const pids = await service.workerPids();
  const { text: answer } = await service.get('/hotels/h1');
  const others = new SteadyLoad(service, [{ path: '/hotels/h1', answer }]);
  const flood = REQUEST.repeat(TOO_MANY);
  for (let round = 0; round < 5; round++) {
    const hostile = new RawConnection(service.port);
    void hostile.write(flood);
    await hostile.closed;
    await others.answers(5);
  }
  expect(await others.stop()).toMatchObject(ALL_ANSWERED);
  expect(await service.workerPids()).toEqual(pids);
});
