import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startOnFreePort } from '../../src/demo/servers/guarded.ts';
import { findProgram } from '../../src/demo/servers/programs.ts';
import { NGINX_READY, nginxCommand, nginxFile } from '../../test/support/nginx-file.ts';
import { pinned, type Target, type TargetOptions } from './target.ts';

const LUA = fileURLToPath(new URL('./nginx.lua', import.meta.url));
const MODULES = '/usr/lib/nginx/modules';
/** Debian's folder of libraries for this processor. */
const LIBRARIES = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/lua/5.1`;

/** Debian packages of this target. */
export const NGINX_PACKAGES =
  'nginx, libnginx-mod-http-lua, lua-resty-core, lua-resty-lrucache, lua-nginx-redis, lua-cjson';

/** Returns true if all programs and libraries of this target are installed. */
export async function hasNginx(): Promise<boolean> {
  const files = [
    ...[`${MODULES}/ngx_http_lua_module.so`, '/usr/share/lua/5.1/resty/lrucache.lua'],
    ...['/usr/share/lua/5.1/nginx/redis.lua', `${LIBRARIES}/cjson.so`],
  ];
  return files.every((file) => existsSync(file)) && (await findProgram(['nginx'])) !== undefined;
}

const MODULES_LOADED = ['ndk_http_module', 'ngx_http_lua_module']
  .map((name) => `load_module ${MODULES}/${name}.so;`)
  .join('\n');

/** Starts nginx with one worker; without `lru` it reads every hotel from Redis, and `gzip` compresses at its default level. */
export async function startNginx(around: TargetOptions, lru: boolean, gzip = false): Promise<Target> {
  const program = (await findProgram(['nginx']))!;
  const server = await startOnFreePort(async (port) => {
    const folder = await mkdtemp(join(tmpdir(), 'hotel-api-nginx-'));
    // the worker may run as another user
    await chmod(folder, 0o755);
    await copyFile(LUA, join(folder, 'hotels.lua'));
    const http = configuration(around, { port, lru, gzip, folder });
    await writeFile(join(folder, 'nginx.conf'), nginxFile(folder, http, MODULES_LOADED));
    return {
      command: pinned(around.pin, ...nginxCommand(program, folder)),
      ...{ env: { PATH: process.env.PATH }, cwd: folder, folder, stopSignal: 'SIGTERM', killAfterMs: 2_000 },
    };
  }, NGINX_READY);
  // the worker is forked, but not set up yet
  await sleep(300);
  return { name: lru ? 'nginx' : 'nginx-redis', ...server };
}

function configuration(
  { peerRedisUrl, keys }: TargetOptions,
  { port, lru, gzip, folder }: { port: number; lru: boolean; gzip: boolean; folder: string },
): string {
  const redis = new URL(peerRedisUrl);
  return `
  server_tokens off;
  default_type application/json;
  ${gzip ? 'gzip on; gzip_comp_level 1; gzip_types application/json;' : ''}
  keepalive_requests 1000000000;
  client_max_body_size 1m;
  client_body_buffer_size 128k;
  lua_package_path "/usr/share/lua/5.1/?.lua;;";
  lua_package_cpath "${LIBRARIES}/?.so;;";
  init_worker_by_lua_block {
    hotels = assert(loadfile("${folder}/hotels.lua"))({
      lru = ${lru}, full_key = "${keys.full}", narrow_key = "${keys.narrow}",
      redis_port = ${redis.port}, redis_database = ${redis.pathname.slice(1)},
    })
  }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location = /hotels/channel/batch { content_by_lua_block { hotels.batch() } }
    location ~ ^/hotels/channel/(?<id>[^/]+)$ { content_by_lua_block { hotels.by_channel() } }
    location ~ ^/hotels/(?<id>[^/]+)$ { content_by_lua_block { hotels.by_id() } }
  }
`;
}
