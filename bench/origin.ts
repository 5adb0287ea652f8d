import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import type { Sql } from 'postgres';

/** When, of which commit and where something was measured. */
export interface Origin {
  at: string;
  commit: string;
  machine: {
    processor: string;
    cores: number;
    kernel: string;
    node: string;
    postgres?: string;
    redis?: string;
    /** versions of programs that may be missing */
    nginx?: string;
    wrk?: string;
  };
}

const ROOT = fileURLToPath(new URL('..', import.meta.url));

export async function originOf(sql: Sql, redis: { url: string }): Promise<Origin> {
  const [postgres] = await sql`select current_setting('server_version') as version`;
  const client = new Redis(redis.url);
  const info = await client.info('server').finally(() => client.disconnect());
  return {
    at: new Date().toISOString(),
    commit: presentCommit(),
    machine: {
      processor: modelOfProcessor(),
      cores: cpus().length,
      kernel: release(),
      node: process.version.slice(1),
      postgres: postgres!.version,
      ...versionIn('redis', info),
      ...versionIn('nginx', outputOf('nginx')),
      ...versionIn('wrk', outputOf('wrk')),
    },
  };
}

/** Returns the first version in a text, as a property of this name; none if there is none. */
function versionIn(name: 'redis' | 'nginx' | 'wrk', text: string): { [name: string]: string } {
  const version = /\d+\.\d+\.\d+/.exec(text)?.[0];
  return version === undefined ? {} : { [name]: version };
}

/** Returns what a program prints for `-v`; empty if it is missing. Debian has nginx in a folder for administrators. */
function outputOf(program: string): string {
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` };
  const { stdout, stderr } = spawnSync(program, ['-v'], { encoding: 'utf8', env });
  return `${stdout ?? ''}${stderr ?? ''}`;
}

function modelOfProcessor(): string {
  const { model } = cpus()[0] ?? { model: '' };
  return model || (/model name\s*: (.*)/.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'unknown');
}

/** Returns what git prints in the repository. Throws if it fails. */
export function git(...args: string[]): string {
  return execFileSync('git', args, {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
}

/** Returns the present commit, with `+` if `src` has uncommitted changes. */
function presentCommit(): string {
  try {
    return git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--', 'src') ? '+' : '');
  } catch {
    return 'unknown';
  }
}
