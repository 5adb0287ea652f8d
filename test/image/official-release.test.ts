import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { startService } from '../support/service.ts';
import { installUws, uwsEnvironment } from '../support/uws.ts';
import { makeOfficialLayout } from './official-layout.ts';

it('services of tests run on the uWebSockets.js that is configured, with the layout of official releases', async () => {
  const { folder, release } = await installUws(await makeOfficialLayout());
  closeAtEnd('another uWebSockets.js', release);
  const service = await startService({ hotels: [{ id: 'h1', name: 'One' }], env: uwsEnvironment(folder) });
  expect((await service.get('/hotels/h1')).json()).toMatchObject({ name: 'One' });
  expect((await service.get('/hotels/h1')).headers.uwebsockets).toBeUndefined();
  const [worker] = await service.workerPids();
  const loaded = [...(await readFile(`/proc/${worker}/maps`, 'utf8')).matchAll(/\/\S*uws_\S+\.node/g)].map(
    ([path]) => path,
  );
  expect(new Set(loaded.map((path) => path.startsWith(folder)))).toEqual(new Set([true]));
});
