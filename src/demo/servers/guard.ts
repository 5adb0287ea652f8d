import { type ChildProcess, spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Order, Report } from './guarded.ts';

/**
 * Guard: a process between a server and its starter. It runs the server and reports its pid and exit. It stops the server
 * and removes its folder on request, or when the starter has exited for any reason, which closes the channel. It has its
 * own session, so Ctrl-C in the terminal only reaches the starter.
 */
let server: ChildProcess | undefined;
let order: Order | undefined;
let stopping = false;
let forced = false;

/** Time in which the server's child processes may exit after it; then they are killed. */
const OUTLIVE_MS = 5_000;

process.once('message', (message) => {
  order = message as Order;
  run(order).then(finish, (error: Error) => {
    report({ failed: error.message });
    return finish();
  });
});
// a second message is the request to stop
process.on('message', (message) => {
  if (message === 'stop') stop();
});
process.on('disconnect', stop);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
// the output of the server goes to the starter, which may have exited
process.stdout.on('error', () => {});
process.stderr.on('error', () => {});

async function run({ before, command }: Order): Promise<void> {
  if (before) {
    const { code, signal } = await ended(start(before));
    if (code !== 0) throw new Error(`${before[0]} ended with ${signal ?? `code ${code}`}`);
  }
  if (stopping) return;
  const child = start(command);
  const end = ended(child);
  // its child processes write to the same pipes
  const closed = new Promise<string>((resolve) => child.once('close', () => resolve('closed')));
  if (child.pid !== undefined) report({ pid: child.pid });
  const { code, signal } = await end;
  if ((await Promise.race([closed, sleep(OUTLIVE_MS)])) !== 'closed' && killGroup()) forced = true;
  report({ exit: { code, signal, forced } });
}

function start([file, ...args]: [string, ...string[]]): ChildProcess {
  const { env, cwd, user } = order!;
  server = spawn(file, args, { env, cwd, ...user, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  for (const name of ['stdout', 'stderr'] as const)
    server[name]!.on('data', (bytes: Buffer) => process[name].write(bytes));
  return server;
}

function ended(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
}

function stop(): void {
  if (stopping) return;
  stopping = true;
  if (!order) process.exit();
  server?.kill(order.stopSignal);
  setTimeout(() => {
    if (killGroup()) forced = true;
  }, order.killAfterMs).unref();
}

async function finish(): Promise<void> {
  if (order?.folder) await rm(order.folder, { recursive: true, force: true, maxRetries: 5 }).catch(() => {});
  process.exit();
}

/** Kills the process group of the server; returns false if none of it runs. */
function killGroup(): boolean {
  try {
    return process.kill(-server!.pid!, 'SIGKILL');
  } catch {
    return false;
  }
}

function report(report: Report): void {
  if (process.connected) process.send!(report, () => {});
}
