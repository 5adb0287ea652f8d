import { setTimeout as sleep } from 'node:timers/promises';
import { type Guarded, runGuarded } from '../../src/demo/servers/guarded.ts';
import { freePort } from '../../src/demo/servers/port.ts';
import { childrenOf } from '../../src/demo/servers/processes.ts';
import { isReady, serviceOrder } from '../../src/demo/service.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import type { FaultProxy } from '../support/proxy.ts';

const READY_TIMEOUT_MS = 120_000;
const LINES_KEPT = 200;
/** Lines on single requests. */
const UNREMARKABLE = /"msg":"(request|request rejected|slow request)"/;

/** Line of the log with the time of `performance.now()` at its receipt. */
export interface LogLine {
  atMs: number;
  line: string;
}

/** Proxies of an instance to its servers. */
interface Paths {
  postgres: FaultProxy;
  redis: FaultProxy;
}

/** The real program with its own proxies; it may be stopped, frozen and restarted. */
export class Instance {
  readonly name: string;
  readonly paths: Paths;
  readonly #env: Record<string, string>;
  readonly #lines: LogLine[] = [];
  /** last line of each process, without its time */
  readonly #lastSaid = new Map<string, string>();
  #guarded!: Guarded;
  port = 0;
  adminPort = 0;
  /** number of times that a fault has frozen or thawed its processes */
  freezes = 0;

  private constructor(name: string, paths: Paths, env: Record<string, string>) {
    this.name = name;
    this.paths = paths;
    this.#env = env;
  }

  static async start(name: string, paths: Paths, env: Record<string, string>): Promise<Instance> {
    const instance = new Instance(name, paths, env);
    instance.port = await freePort();
    do instance.adminPort = await freePort();
    while (instance.adminPort === instance.port);
    closeAtEnd(name, async () => {
      if (instance.#guarded) await instance.stop();
    });
    await instance.start();
    return instance;
  }

  get pid(): number {
    return this.#guarded.pid;
  }

  /** Last lines of its output, without those on single requests and immediate repetitions by a process. */
  get lines(): readonly LogLine[] {
    return this.#lines;
  }

  async workerPids(): Promise<number[]> {
    return childrenOf(this.pid);
  }

  async start(): Promise<void> {
    const { paths, port, adminPort } = this;
    const addresses = { databaseUrl: paths.postgres.url, redisUrl: paths.redis.url, port, adminPort };
    this.#guarded = await runGuarded(
      { ...serviceOrder(addresses, this.#env), killAfterMs: 15_000 },
      (line) => {
        if (UNREMARKABLE.test(line)) return;
        const process = /"role":"\w+","pid":\d+/.exec(line)?.[0] ?? '';
        const said = line.replace(/"time":"[^"]*"/, '');
        if (process !== '' && this.#lastSaid.get(process) === said) return;
        this.#lastSaid.set(process, said);
        this.#lines.push({ atMs: performance.now(), line });
        if (this.#lines.length > LINES_KEPT) this.#lines.shift();
      },
    );
  }

  /** Resolves when /readyz returns 200; rejects after a time limit. */
  async ready(): Promise<void> {
    const untilMs = performance.now() + READY_TIMEOUT_MS;
    while (performance.now() < untilMs) {
      if (await isReady(this.adminPort)) return;
      await sleep(30);
    }
    throw new Error(
      `${this.name} did not become ready:\n${this.#lines
        .slice(-20)
        .map(({ line }) => line)
        .join('\n')}`,
    );
  }

  /** Signals the primary, the workers or both; ignores exited processes. */
  async signal(
    signal: NodeJS.Signals,
    to: { primary?: boolean; workers?: boolean | number },
  ): Promise<number[]> {
    const workers = to.workers === undefined || to.workers === false ? [] : await this.workerPids();
    const chosen =
      typeof to.workers === 'number' ? workers.slice(to.workers % workers.length).slice(0, 1) : workers;
    const pids = [...(to.primary ? [this.pid] : []), ...chosen];
    for (const pid of pids) kill(pid, signal);
    return pids;
  }

  /** Sends SIGTERM and waits for the exit. */
  async stop(): Promise<void> {
    kill(this.pid, 'SIGCONT');
    await this.#guarded.stop();
  }

  /** Kills the primary; resolves when its workers have exited too. */
  async kill(): Promise<void> {
    kill(this.pid, 'SIGKILL');
    await this.#guarded.exited;
  }
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // it has exited by itself
  }
}
