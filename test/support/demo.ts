import { spawn } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../src/demo/servers/port.ts';
import { closeAtEnd } from './cleanup.ts';
import { runningOf } from './processes.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const DEMO_READY_MS = 60_000;

/** A demo that runs. */
export interface Demo {
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
 * At the end of the file a remaining process is killed, and its folder removed.
 */
export async function startDemo(command: string[], environment: Record<string, string> = {}): Promise<Demo> {
  const folder = await mkdtemp(join(tmpdir(), 'hotel-api-demo-test-'));
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
    await rm(folder, { recursive: true, force: true });
  });
  const ready = new Promise<true>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        screen.push(line);
        if (line.startsWith('Ready in')) resolve(true);
      });
    }
  });
  const late = sleep(DEMO_READY_MS, 'late', { ref: false });
  if ((await Promise.race([ready, ended, late])) !== true)
    throw new Error(`the demo ended or was late:\n${screen.join('\n')}`);
  return demo;
}
