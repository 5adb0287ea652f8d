import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './port.ts';

/** Command that is run, and folder that it leaves. */
export interface Order {
  command: [file: string, ...args: string[]];
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** user of the processes; default: the current user */
  user?: { uid: number; gid: number };
  stopSignal: NodeJS.Signals;
  /** time after the stop signal until the server and its children are killed */
  killAfterMs: number;
  /** removed after the server has exited */
  folder?: string;
}

/** Exit of a server: one of code and signal is null. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** true: it or one of its children was killed after the time limit */
  forced: boolean;
}

/** Server that exits with this process, even if that is killed, and whose folder is then removed. */
export interface Guarded {
  pid: number;
  /** last lines of its output, for the message of a failure */
  lines: readonly string[];
  /** resolves when the server and its children have exited and its folder is removed */
  exited: Promise<Exit>;
  /** sends the stop signal and resolves like `exited` */
  stop(): Promise<Exit>;
}

const LINES_KEPT = 20;
/** Time in which the server's child processes may exit after it; then they are killed. */
const OUTLIVE_MS = 5_000;
const ATTEMPTS = 5;

/**
 * Guard of a server. Its standard input ends when this process has exited for any reason: then it sends the stop signal,
 * kills what remains of the process group after the time limit, and removes the folder.
 */
const GUARD = `
  trap '' INT TERM HUP
  pid=$1 signal=$2 killAfterMs=$3 folder=$4
  read -r _
  kill -s "$signal" "$pid"
  while kill -0 "-$pid" && [ "$killAfterMs" -gt 0 ]; do sleep 0.05; killAfterMs=$((killAfterMs - 50)); done
  kill -KILL "-$pid"
  rm -rf "$folder"`;

/**
 * Runs a server in a session of its own, so Ctrl-C in the terminal does not reach it. `onLine` receives each line of both output
 * streams. Rejects if the server cannot be run.
 */
export async function runGuarded(order: Order, onLine: (line: string) => void): Promise<Guarded> {
  const lines: string[] = [];
  const { command, env, cwd, user, stopSignal, killAfterMs, folder = '' } = order;
  const [file, ...args] = command;
  const removeFolder = () => rm(folder, { recursive: true, force: true, maxRetries: 5 }).catch(() => {});
  const child = spawn(file, args, { env, cwd, ...user, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      if (lines.push(line) > LINES_KEPT) lines.shift();
      onLine(line);
    });
  await once(child, 'spawn').catch(async (error) => {
    await removeFolder();
    throw error;
  });
  const pid = child.pid!;
  const guard = spawn(
    '/bin/sh',
    ['-c', GUARD, 'guard', `${pid}`, stopSignal.slice(3), `${killAfterMs}`, folder],
    {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    },
  );
  guard.unref();
  let forced = false;
  const kill = () => {
    try {
      forced = process.kill(-pid, 'SIGKILL');
    } catch {
      // none of its processes runs
    }
  };
  // its child processes write to the same pipes
  const closed = once(child, 'close').then(() => true);
  const exited = once(child, 'exit').then(async ([code, signal]) => {
    if (!(await Promise.race([closed, sleep(OUTLIVE_MS, false, { ref: false })]))) kill();
    await removeFolder();
    guard.kill('SIGKILL');
    return { code, signal, forced };
  });
  const stop = () => {
    if (!child.killed && child.kill(stopSignal)) setTimeout(kill, killAfterMs).unref();
    return exited;
  };
  return { pid, lines, exited, stop };
}

/**
 * Starts a server on a free loopback port and resolves when it has printed a line that matches `ready`. If another process
 * has taken the port meanwhile, the server is started again on another. Rejects with the last output of the server.
 */
export async function startOnFreePort(
  orderFor: (port: number) => Promise<Order>,
  ready: RegExp,
): Promise<Guarded & { port: number }> {
  for (let attempt = 1; ; attempt++) {
    const port = await freePort();
    const { promise: isReady, resolve } = Promise.withResolvers<'ready'>();
    const order = await orderFor(port);
    const server = await runGuarded(order, (line) => {
      if (ready.test(line)) resolve('ready');
    });
    const outcome = await Promise.race([isReady, server.exited]);
    if (outcome === 'ready') return { ...server, port };
    const portWasTaken = server.lines.some((line) => /address already in use/i.test(line));
    if (portWasTaken && attempt < ATTEMPTS) continue;
    const state = `${order.command[0]} ended with ${outcome.signal ?? `code ${outcome.code}`}`;
    throw new Error([state, ...server.lines].join('\n'));
  }
}
