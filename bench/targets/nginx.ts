import { access, chmod, copyFile, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../../src/demo/programs.ts';
import { startOnFreePort } from '../../src/demo/server.ts';
import { pinned, type Surroundings, type Target } from './target.ts';

const LUA = fileURLToPath(new URL('./nginx.lua', import.meta.url));
const MODULES = '/usr/lib/nginx/modules';

/** Debian's packages for this target. */
export const NGINX_PACKAGES = [
  ...[
    'nginx',
    'libnginx-mod-http-lua',
    'lua-resty-core',
    'lua-resty-lrucache',
    'lua-nginx-redis',
    'lua-cjson',
  ],
];

/** True when all that this target needs is installed. */
export async function hasNginx(): Promise<boolean> {
  const files = [
    ...[`${MODULES}/ngx_http_lua_module.so`, '/usr/share/lua/5.1/resty/lrucache.lua'],
    ...['/usr/share/lua/5.1/nginx/redis.lua', '/usr/lib/x86_64-linux-gnu/lua/5.1/cjson.so'],
  ];
  const found = await Promise.all(
    files.map((file) =>
      access(file).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.every(Boolean) && (await findProgram(['nginx'])) !== undefined;
}

/** Starts nginx with one worker; without `lru` every hotel is read from Redis. */
export async function startNginx(around: Surroundings, lru: boolean): Promise<Target> {
  const program = (await findProgram(['nginx']))!;
  const server = await startOnFreePort(async (port) => {
    const folder = await mkdtemp(join(tmpdir(), 'hotel-api-nginx-'));
    // the worker runs as another user
    await chmod(folder, 0o755);
    await copyFile(LUA, join(folder, 'hotels.lua'));
    await writeFile(join(folder, 'nginx.conf'), configuration(around, { port, lru, folder }));
    return {
      command: pinned(around.pin, program, '-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'),
      env: { PATH: process.env.PATH },
      cwd: folder,
      stopSignal: 'SIGTERM',
      killAfterMs: 2_000,
      folder,
    };
  }, /start worker process \d/);
  // the worker has been forked, not yet set up
  await sleep(300);
  return { name: lru ? 'nginx' : 'nginx-redis', ...server };
}

function configuration(
  { peerRedisUrl, keys }: Surroundings,
  { port, lru, folder }: { port: number; lru: boolean; folder: string },
): string {
  const redis = new URL(peerRedisUrl);
  return `
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr notice;
load_module ${MODULES}/ndk_http_module.so;
load_module ${MODULES}/ngx_http_lua_module.so;
events { worker_connections 4096; }
http {
  access_log off;
  server_tokens off;
  default_type application/json;
  keepalive_requests 1000000000;
  client_max_body_size 1m;
  client_body_buffer_size 128k;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  lua_package_path "/usr/share/lua/5.1/?.lua;;";
  lua_package_cpath "/usr/lib/x86_64-linux-gnu/lua/5.1/?.so;;";
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
}
`;
}
