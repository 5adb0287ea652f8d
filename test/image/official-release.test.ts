import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { closeAtEnd } from '../support/left-behind.ts';
import { startService } from '../support/service.ts';
import { installUws, uwsEnvironment } from '../support/uws.ts';

const REPACK = fileURLToPath(new URL('../../node_modules/uWebSockets.js', import.meta.url));
const EXPORTS = ['App', 'SSLApp', 'us_listen_socket_close', 'us_socket_local_port', '_cfg', 'getParts'];

/** A package laid out as the official releases are: a CommonJS module, and a wrapper with named exports over it. */
async function layOut(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hotel-api-official-'));
  closeAtEnd('a package', () => rm(folder, { recursive: true, force: true }));
  const binary = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`;
  const places = await readdir(REPACK, { recursive: true });
  await cp(join(REPACK, places.find((place) => place.endsWith(binary))!), join(folder, binary));
  await writeFile(join(folder, 'uws.js'), `module.exports = require('./${binary}');\n`);
  const named = EXPORTS.map((name) => `export const ${name} = uws.${name};`);
  await writeFile(
    join(folder, 'ESM_wrapper.mjs'),
    ["import uws from './uws.js';", 'export default uws;', ...named].join('\n'),
  );
  const exports = { '.': { import: './ESM_wrapper.mjs', require: './uws.js' } };
  await writeFile(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'uWebSockets.js', version: '20.69.0', exports }),
  );
  return folder;
}

it('services run on another uWebSockets.js where the tests are told to, and take from it what official releases have', async () => {
  const { folder, release } = await installUws(await layOut());
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
