import { fork } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Command and folder that a guard runs. */
export interface Order {
  command: [file: string, ...args: string[]];
  /** runs to completion before `command`, for example to fill the folder */
  before?: [file: string, ...args: string[]];
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
  /** true: the guard killed it or one of its children after the time limit */
  forced: boolean;
}

/** Message of a guard to its starter. */
export type Report = { pid: number } | { exit: Exit } | { failed: string };

/** Server that exits with this process, even if that is killed, and whose folder is then removed. */
export interface Guarded {
  /** pid of the server itself, not of its guard */
  pid: number;
  /** last lines of its output, for the message of a failure */
  lines: readonly string[];
  /** resolves when the server and its children have exited and its folder is removed */
  exited: Promise<Exit>;
  /** sends the stop signal and resolves like `exited` */
  stop(): Promise<Exit>;
}

const LINES_KEPT = 20;

/**
 * Runs a server under a guard. `onLine` receives each line of both output streams. Rejects with the last lines if the server
 * cannot be run.
 */
export function runGuarded(order: Order, onLine: (line: string) => void): Promise<Guarded> {
  const guard = fork(fileURLToPath(new URL('./guard.ts', import.meta.url)), {
    detached: true,
    execArgv: [],
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const lines: string[] = [];
  for (const stream of [guard.stdout!, guard.stderr!])
    createInterface({ input: stream }).on('line', (line) => {
      if (lines.push(line) > LINES_KEPT) lines.shift();
      onLine(line);
    });

  const { promise: running, resolve, reject } = Promise.withResolvers<Guarded>();
  const { promise: exited, resolve: resolveExit } = Promise.withResolvers<Exit>();
  let failure = `${order.command[0]} did not start`;
  // applies if the guard itself was killed
  let exit: Exit = { code: null, signal: 'SIGKILL', forced: true };
  const stop = () => {
    if (guard.connected) guard.send('stop', () => {});
    return exited;
  };
  guard.on('message', (report: Report) => {
    if ('pid' in report) resolve({ pid: report.pid, lines, exited, stop });
    else if ('exit' in report) exit = report.exit;
    else failure = report.failed;
  });
  // not on 'exit', so that the last lines are read first
  guard.on('close', () => {
    reject(new Error([failure, ...lines].join('\n')));
    resolveExit(exit);
  });
  guard.on('error', reject);
  guard.send(order);
  return running;
}
