import { execFile } from 'node:child_process';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { runGuarded } from './guarded.ts';
import { findProgram } from './programs.ts';

/** The folder that keeps unpacked programs between runs. `npm ci` removes it. */
const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/hotel-api', import.meta.url));
const SCRIPT = fileURLToPath(new URL('./unpack-redis.sh', import.meta.url));
const TIMEOUT_MS = 60_000;

/**
 * Returns the Redis program of the distribution's package, unpacked into a folder of `cache` unless it is there.
 * Nothing is installed. Undefined on failure; `log` reports the reason.
 */
export async function unpackRedis(
  log: (sentence: string) => void,
  { cache = CACHE, signal }: { cache?: string; signal?: AbortSignal | undefined } = {},
): Promise<string | undefined> {
  const target = join(cache, `redis-${process.arch}`);
  const program = join(target, 'redis-server');
  // that of another distribution, which shares the folder, may not run here
  if (await runs(program)) return program;
  if (!(await findProgram(['apt-get'])) || !(await findProgram(['dpkg-deb']))) {
    log('No redis-server or valkey-server on the PATH, and no apt-get to fetch its package with.');
    return undefined;
  }
  log('Fetching Redis from the packages of this distribution (once, into node_modules/.cache) …');
  const reason = await runScript(cache, target, signal).catch((error: Error) => error.message);
  if (reason === undefined) return program;
  log(`Redis could not be fetched: ${reason}`);
  return undefined;
}

/** Runs the script and returns why it failed, or undefined. Its folder is removed in every case, even if this process is killed. */
async function runScript(cache: string, target: string, signal?: AbortSignal): Promise<string | undefined> {
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, 'unpacking-'));
  const lines: string[] = [];
  const running = await runGuarded(
    {
      command: ['/bin/sh', SCRIPT, folder, target],
      env: { ...process.env, LC_ALL: 'C', TMPDIR: folder, DEBIAN_FRONTEND: 'noninteractive' },
      ...{ cwd: folder, folder, stopSignal: 'SIGKILL', killAfterMs: 0 },
    },
    (line) => lines.push(line),
  );
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const ending = AbortSignal.any(signal ? [signal, timeout] : [timeout]);
  ending.addEventListener('abort', running.stop);
  if (ending.aborted) void running.stop();
  const { code } = await running.exited;
  if (code === 0) return undefined;
  if (ending.aborted) return timeout.aborted ? `not done within ${TIMEOUT_MS / 1000} s` : 'interrupted';
  // the first error is the cause of the following ones; apt of Debian 13 warns before it
  const first = (kind: string) => lines.find((line) => line.startsWith(kind));
  return first('E: ') ?? first('W: ') ?? lines.at(-1) ?? `${SCRIPT} ended with code ${code}`;
}

function runs(program: string): Promise<boolean> {
  return promisify(execFile)(program, ['--version']).then(
    () => true,
    () => false,
  );
}
