import { execFile, execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

/** Whether /usr/sbin can be another one for a process and its children, as it is here: not for everybody. */
const mayHideFolders = ((): boolean => {
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' });
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
})();

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'install-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** Puts a program on the PATH; it notes how it was called. */
async function put(name: string, script = ''): Promise<void> {
  await writeFile(
    join(folder, name),
    `#!/bin/sh\nPATH=/usr/bin:/bin\necho ${name} "$@" >> ${folder}/calls\n${script}\n`,
    {
      mode: 0o755,
    },
  );
}

/**
 * Runs code with an empty /usr/sbin of its own and nothing on the PATH but what was put there. What it printed, then
 * what was left in /usr/sbin.
 */
async function run(code: string, environment: Record<string, string> = {}): Promise<string[]> {
  const hidden = ['/usr/sbin', '/usr/local/sbin', '/usr/local/bin', '/sbin']
    .filter((place) => place !== dirname(process.execPath))
    .map((place) => `[ -L ${place} ] || mount -t tmpfs none ${place}`)
    .join('; ');
  const script = `${hidden}; PATH=${folder} "$0" --input-type=module-typescript -e "$1"; ls /usr/sbin`;
  return new Promise((resolve) => {
    execFile(
      'unshare',
      ['--mount', 'sh', '-c', script, process.execPath, code],
      { cwd: import.meta.dirname, env: { PATH: process.env.PATH, ...environment } },
      (_, stdout, stderr) => resolve(`${stdout}${stderr}`.trim().split('\n')),
    );
  });
}

const calls = async () =>
  (await readFile(join(folder, 'calls'), 'utf8').catch(() => '')).trim().split('\n').filter(Boolean);
const FIND = `import { findRedisProgram } from '${import.meta.dirname}/redis.ts';
  console.log(await findRedisProgram(console.log));`;

describe.runIf(mayHideFolders)('Redis', () => {
  it('that TEST_REDIS names is not installed, and the service of another is left alone', async () => {
    for (const name of ['apt-get', 'systemctl', 'redis-server']) await put(name);
    expect(await run(FIND, { TEST_REDIS: 'valkey-server' })).toEqual([
      'TEST_REDIS=valkey-server, but it is not on the PATH.',
      'undefined',
    ]);
    expect(await calls()).toEqual([]);
  });

  it('is installed without its service, and nothing else is switched off', async () => {
    await put('apt-get', `ls /usr/sbin >> ${folder}/calls; cp $0 ${folder}/redis-server`);
    await put('systemctl');
    expect((await run(FIND)).slice(1)).toEqual([join(folder, 'redis-server')]);
    expect(await calls()).toEqual([
      expect.stringMatching(/^apt-get install .*redis-server$/),
      'policy-rc.d',
      'systemctl disable --quiet redis-server',
    ]);
  });

  it('leaves no policy on services behind when the process ends in the middle of its installation', async () => {
    await put('apt-get', `kill -TERM $PPID; exec sleep 1`);
    const code = `process.on('SIGTERM', () => process.exit()); ${FIND}`;
    expect(await run(code)).toEqual([expect.stringMatching(/^Redis is not installed here/)]);
    expect(await calls()).toHaveLength(1);
  });
});
