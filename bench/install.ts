import { spawn } from 'node:child_process';
import { findProgram } from '../src/servers/programs.ts';
import { withoutServices } from '../src/servers/without-services.ts';
import { hasNginx, NGINX_PACKAGES } from './targets/nginx.ts';

/** What the machine has beside npm's packages. */
export interface Tools {
  wrk: string | undefined;
  nginx: boolean;
  /** what is left out, and why */
  sentences: string[];
}

/** What a run has a use for. */
export interface Wanted {
  wrk: boolean;
  nginx: boolean;
}

/** Installs what is wanted by apt-get where it is missing and the user is root. It stays installed. */
export async function findTools(wanted: Wanted, say: (sentence: string) => void): Promise<Tools> {
  const missing = [
    ...(!wanted.wrk || (await findProgram(['wrk'])) ? [] : ['wrk']),
    ...(!wanted.nginx || (await hasNginx()) ? [] : NGINX_PACKAGES),
  ];
  const aptGet = process.getuid?.() === 0 ? await findProgram(['apt-get']) : undefined;
  if (missing.length > 0 && aptGet) {
    say(`Installing ${missing.join(', ')} with apt-get (they stay installed).`);
    await withoutServices(['nginx'], async () => {
      if (await install(aptGet, missing)) return;
      await run(aptGet, ['update', '-qq']);
      await install(aptGet, missing);
    });
  }
  const tools = { wrk: await findProgram(['wrk']), nginx: await hasNginx() };
  const sentences: string[] = [];
  if (wanted.wrk && !tools.wrk)
    sentences.push('wrk is not here: a slower generator sends the small requests too.');
  if (wanted.nginx && !tools.nginx)
    sentences.push(`nginx with Lua is left out: its packages are not here (${NGINX_PACKAGES.join(', ')}).`);
  return { ...tools, sentences };
}

function install(aptGet: string, packages: string[]): Promise<boolean> {
  return run(aptGet, [
    ...['install', '-y', '-qq', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=60', ...packages],
  ]);
}

function run(program: string, args: string[]): Promise<boolean> {
  const child = spawn(program, args, {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    stdio: 'ignore',
    timeout: 180_000,
  });
  return new Promise((resolve) =>
    child.once('error', () => resolve(false)).once('close', (code) => resolve(code === 0)),
  );
}
