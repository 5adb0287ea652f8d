import { chmod, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from './cleanup.ts';

/** Paths of libfaketime on Debian and Fedora. */
export const FAKETIME_LIBRARIES = [
  `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/faketime/libfaketime.so.1`,
  '/usr/lib64/faketime/libfaketime.so.1',
];

/** Wall clock of processes that run with `env`. It runs at normal speed, and timers are unaffected. */
export class FakeClock {
  readonly env: Record<string, string>;
  readonly #file: string;
  #offsetMs = 0;

  private constructor(library: string, file: string) {
    this.#file = file;
    this.env = {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      DONT_FAKE_MONOTONIC: '1',
    };
  }

  static async make(library: string): Promise<FakeClock> {
    const folder = await temporaryFolder('hotel-api-clock-');
    // PostgreSQL runs as another user
    await chmod(folder, 0o755);
    const clock = new FakeClock(library, join(folder, 'time'));
    await clock.set(Date.now());
    return clock;
  }

  now(): number {
    return Date.now() + this.#offsetMs;
  }

  async set(epochMs: number): Promise<void> {
    const offsetMs = Math.round(epochMs - Date.now());
    // atomically, so that a reader never finds half a line
    await writeFile(`${this.#file}.new`, `${offsetMs < 0 ? '' : '+'}${(offsetMs / 1000).toFixed(3)}\n`);
    await rename(`${this.#file}.new`, this.#file);
    this.#offsetMs = offsetMs;
  }
}
