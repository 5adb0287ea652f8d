import { fork } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** What a guard shall run. */
export interface Order {
  command: [file: string, ...args: string[]];
  /** runs to its end before `command`, e.g. to fill the folder */
  before?: [file: string, ...args: string[]];
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** the user it runs as; the own one where missing */
  user?: { uid: number; gid: number };
  stopSignal: NodeJS.Signals;
  /** after the stop signal; then it is killed with all it started */
  killAfterMs: number;
  /** removed when the server has ended */
  folder?: string;
}

/** How a server ended: one of code and signal is null. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** true: it, or a process it started, did not end in time and was killed by its guard */
  forced: boolean;
}

/** What a guard says to who started it. */
export type Report = { pid: number } | { exit: Exit } | { failed: string };

/** A server that ends with us, even when we are killed, and leaves no folder behind. */
export interface Guarded {
  /** of the server itself, not of its guard */
  pid: number;
  /** resolves when the server and all it started have ended and its folder is gone */
  exited: Promise<Exit>;
  /** sends the stop signal and waits for the end, as `exited` does */
  stop(): Promise<Exit>;
}

/** Runs a server under a guard. Each line it prints, on either stream, goes to `onLine`. Rejects when it cannot be run. */
export function runGuarded(order: Order, onLine: (line: string) => void): Promise<Guarded> {
  const guard = fork(fileURLToPath(new URL('./guard.ts', import.meta.url)), {
    detached: true,
    execArgv: [],
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  for (const stream of [guard.stdout!, guard.stderr!]) createInterface({ input: stream }).on('line', onLine);

  const { promise: running, resolve, reject } = Promise.withResolvers<Guarded>();
  const { promise: exited, resolve: resolveExit } = Promise.withResolvers<Exit>();
  // stands where the guard itself was killed
  let exit: Exit = { code: null, signal: 'SIGKILL', forced: true };
  const stop = () => {
    if (guard.connected) guard.send('stop', () => {});
    return exited;
  };
  guard.on('message', (report: Report) => {
    if ('pid' in report) resolve({ pid: report.pid, exited, stop });
    else if ('exit' in report) exit = report.exit;
    else reject(new Error(report.failed));
  });
  // not on 'exit': the last lines are read first
  guard.on('close', () => {
    reject(new Error(`${order.command[0]} did not start`));
    resolveExit(exit);
  });
  guard.on('error', reject);
  guard.send(order);
  return running;
}
