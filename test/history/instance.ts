import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Guarded, runGuarded } from '../../src/demo/servers/guarded.ts';
import { freePort } from '../../src/demo/servers/port.ts';
import { childrenOf } from '../../src/demo/servers/processes.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import type { FaultProxy } from '../support/proxy.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const READY_TIMEOUT_MS = 120_000;
const LINES_KEPT = 200;

/** Proxies of an instance to its servers. */
export interface Paths {
  postgres: FaultProxy & { url: string };
  redis: FaultProxy & { url: string };
}

/** The real program with its own proxies; it may be stopped, frozen and restarted. */
export class Instance {
  readonly name: string;
  readonly paths: Paths;
  readonly #env: Record<string, string>;
  readonly #lines: string[] = [];
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
    instance.adminPort = await freePort();
    closeAtEnd(name, async () => {
      if (instance.#guarded) await instance.stop();
    });
    await instance.start();
    return instance;
  }

  get pid(): number {
    return this.#guarded.pid;
  }

  /** Last lines of its output. */
  get lines(): readonly string[] {
    return this.#lines;
  }

  async workerPids(): Promise<number[]> {
    return childrenOf(this.pid);
  }

  async start(): Promise<void> {
    this.#guarded = await runGuarded(
      {
        command: [process.execPath, 'src/main.ts', 'serve'],
        cwd: ROOT,
        env: {
          PATH: process.env.PATH,
          HOME: process.env.HOME,
          DATABASE_URL: this.paths.postgres.url,
          REDIS_URL: this.paths.redis.url,
          HOST: '127.0.0.1',
          PORT: String(this.port),
          ADMIN_HOST: '127.0.0.1',
          ADMIN_PORT: String(this.adminPort),
          LOG_LEVEL: 'info',
          DRAIN_WAIT_MS: '0',
          ...this.#env,
        },
        stopSignal: 'SIGTERM',
        killAfterMs: 15_000,
      },
      (line) => {
        if (this.#lines.push(line) > LINES_KEPT) this.#lines.shift();
      },
    );
  }

  /** Resolves when /readyz returns 200; rejects after a time limit. */
  async ready(): Promise<void> {
    const untilMs = performance.now() + READY_TIMEOUT_MS;
    while (performance.now() < untilMs) {
      const status = await fetch(`http://127.0.0.1:${this.adminPort}/readyz`, {
        signal: AbortSignal.timeout(1_000),
      })
        .then((response) => response.status)
        .catch(() => 0);
      if (status === 200) return;
      await sleep(30);
    }
    throw new Error(`${this.name} did not become ready:\n${this.#lines.slice(-20).join('\n')}`);
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
