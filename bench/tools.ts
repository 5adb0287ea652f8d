import { findProgram } from '../src/demo/servers/programs.ts';
import { hasNginx, NGINX_PACKAGES } from './targets/nginx.ts';

/** Programs of the machine beside npm's packages. */
export interface Tools {
  wrk: string | undefined;
  nginx: boolean;
  /** omissions and their reasons */
  sentences: string[];
}

/** Programs that a run can use. */
export interface Wanted {
  wrk: boolean;
  nginx: boolean;
}

/** Finds the programs of a run. Nothing is installed. */
export async function findTools(wanted: Wanted): Promise<Tools> {
  const tools = { wrk: await findProgram(['wrk']), nginx: await hasNginx() };
  const sentences: string[] = [];
  if (wanted.wrk && !tools.wrk)
    sentences.push('wrk is not installed: a slower generator sends the small requests too.');
  if (wanted.nginx && !tools.nginx)
    sentences.push(`nginx with Lua is left out: its packages are not here (${NGINX_PACKAGES}).`);
  return { ...tools, sentences };
}
