import { spawn } from 'node:child_process';
import { chmod, readdir } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../src/demo/servers/port.ts';
import { othersReach } from '../../src/demo/servers/postgres.ts';
import { ROOT } from '../documents/files.ts';
import { closeAtEnd, temporaryFolder, untilGone } from '../support/cleanup.ts';
import { lacks, needs } from '../support/needs.ts';
import { descendantsOf, runningOf } from '../support/processes.ts';
import { pathOf } from '../support/programs.ts';
import { run } from '../support/run.ts';

await needs('bash', 'curl');

/** A demo that runs. */
interface Demo {
  /** pid of the demo, which leads its own process group, as on a terminal */
  pid: number;
  port: number;
  /** output up to the line that reports readiness */
  screen: string[];
  /** folder for the files of the demo and its servers */
  folder: string;
  ended: Promise<number | null>;
}

/**
 * Starts `npm run demo`, or another command that runs it, with 300 hotels and its own ports, and waits until it is ready.
 * At the end of the file a remaining process is killed.
 */
async function startDemo(command: string[], environment: Record<string, string> = {}): Promise<Demo> {
  const folder = await temporaryFolder('hotel-api-demo-test-');
  await chmod(folder, 0o777);
  const [port, adminPort] = [await freePort(), await freePort()];
  const options = `--hotels 300 --port ${port} --admin-port ${adminPort}`.split(' ');
  const [file, ...rest] = [...command, ...options];
  const child = spawn(file!, rest, {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: folder, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const screen: string[] = [];
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  const demo = { pid: child.pid!, port, screen, folder, ended };
  closeAtEnd(`demo on port ${port}`, async () => {
    if ((await runningOf([demo.pid])).length > 0) process.kill(-demo.pid, 'SIGKILL');
  });
  const ready = new Promise<true>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        screen.push(line);
        if (line.startsWith('Ready.')) resolve(true);
      });
    }
  });
  if ((await Promise.race([ready, ended])) !== true) throw new Error(`the demo ended:\n${screen.join('\n')}`);
  return demo;
}

const MAIN = 'src/demo/main.ts';
const ENDING_MS = 15_000;

/** True if this process may act as another user. */
const maySwitch = process.getuid?.() === 0 && (await othersReach(ROOT));
const skipped = !maySwitch || (await lacks('setpriv'));
const setpriv = await pathOf('setpriv');

/** Returns the remaining processes and files of the demo, once they are stable. */
async function leftOf(demo: Demo, processes: number[]): Promise<(number | string)[]> {
  return untilGone(async () => [...(await runningOf(processes)), ...(await readdir(demo.folder))], ENDING_MS);
}

describe('the demo', () => {
  test('prints commands that work when pasted, and leaves no process and no file after Ctrl-C', async () => {
    // npm itself would leave its compile cache in the folder
    const demo = await startDemo(['npm', 'run', 'demo', '--'], { NODE_DISABLE_COMPILE_CACHE: '1' });
    const curls = demo.screen.filter((line) => line.startsWith('curl '));
    const outcomes = await Promise.all(
      curls.map(async (line) => {
        const output = await run('bash', ['-c', `${line} -w '\n%{http_code}'`]);
        const [body, status] = output.split('\n').slice(-2);
        const answer = JSON.parse(body!);
        const shown = Array.isArray(answer) ? answer.length : answer.registry_id === null;
        return `${status} ${/127\.0\.0\.1:\d+(\/[a-z/]*)/.exec(line)![1]} ${shown}`;
      }),
    );
    expect(outcomes).toEqual([
      ...['200 /hotels 2', '200 /hotels 1', '200 /hotels/htl false', '200 /hotels/channel/ false'],
      ...['200 /hotels/registry/ false', '200 /hotels/htl true', '200 /hotels/batch 2'],
      ...['200 /hotels/channel/batch 2', '200 /hotels/registry/batch 2'],
    ]);

    const processes = await descendantsOf(demo.pid);
    // like a terminal, which signals the whole group
    process.kill(-demo.pid, 'SIGINT');
    await demo.ended;
    expect(demo.screen).toContain('Ending.');
    expect(await leftOf(demo, processes)).toEqual([]);
  });

  test.each(['demo', 'service'])(
    'leaves no process and no file when the %s is killed, for a user who is not root',
    async (victim) => {
      const other = [setpriv!, '--reuid=nobody', '--regid=nogroup', '--clear-groups', process.execPath, MAIN];
      const demo = await (skipped
        ? startDemo([process.execPath, MAIN])
        : startDemo(other, { HOME: '/nonexistent' }));
      const processes = await descendantsOf(demo.pid);
      expect(processes.length).toBeGreaterThan(6);
      const service = Number(/; pid (\d+)/.exec(demo.screen.join('\n'))![1]);
      process.kill(victim === 'demo' ? demo.pid : service, 'SIGKILL');
      expect(await demo.ended).toBe(victim === 'demo' ? null : 1);
      if (victim === 'service')
        expect(demo.screen).toContain('The service has exited (SIGKILL); the demo stops.');
      expect(await leftOf(demo, processes)).toEqual([]);
    },
  );
});
