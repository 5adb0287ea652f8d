import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

type Command = [file: string, ...args: string[]];

/** Command that is run, and folder that it leaves. */
export interface Order {
  command: Command;
  /** runs to completion before `command`, for example to fill the folder */
  before?: Command;
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

/** What the guard ends, and whose folder it removes, if this process exits before. */
export type Charge = { pid: number } & Pick<Order, 'stopSignal' | 'killAfterMs' | 'folder'>;

const LINES_KEPT = 20;
/** Time in which the server's child processes may exit after it; then they are killed. */
const OUTLIVE_MS = 5_000;

let guard: ChildProcess | undefined;
let orders = 0;

/**
 * Runs a server in a session of its own, so Ctrl-C in the terminal does not reach it. `onLine` receives each line of both output
 * streams. Rejects with the last lines if the server cannot be run.
 */
export async function runGuarded(order: Order, onLine: (line: string) => void): Promise<Guarded> {
  const number = ++orders;
  const lines: string[] = [];
  const { env, cwd, user, stopSignal, killAfterMs, folder } = order;
  const start = async ([file, ...args]: Command): Promise<ChildProcess> => {
    const child = spawn(file, args, { env, cwd, ...user, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => {
        if (lines.push(line) > LINES_KEPT) lines.shift();
        onLine(line);
      });
    await once(child, 'spawn');
    entrust(number, { pid: child.pid!, stopSignal, killAfterMs, ...(folder && { folder }) });
    return child;
  };
  const finish = async () => {
    await removeFolder(folder);
    entrust(number);
  };

  let child: ChildProcess;
  try {
    if (order.before) {
      const [code, signal] = await once(await start(order.before), 'close');
      if (code !== 0) throw new Error(`${order.before[0]} ended with ${signal ?? `code ${code}`}`);
    }
    child = await start(order.command);
  } catch (error) {
    await finish();
    throw new Error([(error as Error).message, ...lines].join('\n'));
  }
  const pid = child.pid!;
  let forced = false;
  const kill = () => {
    forced = signalled(-pid, 'SIGKILL') || forced;
  };
  // its child processes write to the same pipes
  const closed = once(child, 'close').then(() => true);
  const exited = once(child, 'exit').then(async ([code, signal]) => {
    if (!(await Promise.race([closed, sleep(OUTLIVE_MS, false, { ref: false })]))) kill();
    await finish();
    return { code, signal, forced };
  });
  const stop = () => {
    if (!child.killed && child.kill(stopSignal)) setTimeout(kill, killAfterMs).unref();
    return exited;
  };
  return { pid, lines, exited, stop };
}

/** Gives the guard a server, or takes it back. The guard is started at the first call. */
function entrust(number: number, charge?: Charge): void {
  if (!guard?.connected) {
    guard = fork(fileURLToPath(new URL('./guard.ts', import.meta.url)), {
      detached: true,
      execArgv: [],
      env: { PATH: process.env.PATH },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    guard.unref();
    guard.channel!.unref();
  }
  guard.send([number, charge], () => {});
}

/** Signals a process, or a group by its negative number; returns false if none of it runs. */
export function signalled(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

export async function removeFolder(folder: string | undefined): Promise<void> {
  if (folder) await rm(folder, { recursive: true, force: true, maxRetries: 5 }).catch(() => {});
}
