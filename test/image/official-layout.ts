import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { closeAtEnd, temporaryFolder } from '../support/cleanup.ts';

const REPACK = fileURLToPath(new URL('../../node_modules/uWebSockets.js', import.meta.url));
const EXPORTS = ['App', 'SSLApp', 'us_listen_socket_close', 'us_socket_local_port', '_cfg', 'getParts'];

/**
 * Creates a package with the layout of the official releases: a CommonJS module, and a wrapper with named exports. Its
 * binary is that of the lock file.
 */
export async function makeOfficialLayout(): Promise<string> {
  const folder = await temporaryFolder('hotel-api-official-');
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

/** Serves the archive of such a package on the loopback. `integrity` is its hash in npm's format. */
export async function serveOfficialLayout(): Promise<{ url: string; integrity: string }> {
  const folder = await makeOfficialLayout();
  const options = { cwd: folder };
  const { stdout } = await promisify(execFile)('npm', ['pack', '--json', '--ignore-scripts'], options);
  const archive = await readFile(join(folder, JSON.parse(stdout)[0].filename));
  const server = createServer((_, response) => response.end(archive)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeAtEnd('the server of a package', async () => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/uws.tgz`,
    integrity: `sha512-${createHash('sha512').update(archive).digest('base64')}`,
  };
}
