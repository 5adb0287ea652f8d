import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from './cleanup.ts';
import { run } from './run.ts';
import type { Service } from './service.ts';

const EXAMPLES = join(import.meta.dirname, '../../docs/api/clients');
const DRIVERS = join(import.meta.dirname, '../system/clients');

/** Commands that drive a client, by its language. */
export const CLIENTS: [language: string, program: string, options: string[]][] = [
  ['TypeScript', process.execPath, ['--no-warnings', 'drive.ts']],
  ['Python', 'python3', ['drive.py']],
];

/** The clients of the guide, and the programs of test/system/clients that drive them, in a new folder. */
export class ClientPrograms {
  readonly folder: string;
  readonly #service: Service;

  private constructor(folder: string, service: Service) {
    this.folder = folder;
    this.#service = service;
  }

  static async of(service: Service): Promise<ClientPrograms> {
    const folder = await temporaryFolder('clients-');
    for (const source of [EXAMPLES, DRIVERS]) await cp(source, folder, { recursive: true });
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    return new ClientPrograms(folder, service);
  }

  /** Runs a program in the folder, by default against the service. Returns its output. */
  run(program: string, options: readonly string[], url = this.#service.url): Promise<string> {
    const env = { ...process.env, NO_COLOR: '1', HOTEL_API_URL: url, HOTEL_API_KEY: this.#service.fullKey };
    return run(program, options, { cwd: this.folder, env });
  }

  /** Runs a driver, which makes the calls of `given`. Returns the result of each. */
  async drive<Result>(
    program: string,
    options: readonly string[],
    given: object,
    url: string,
  ): Promise<Result[]> {
    // an argument has at most 128 KiB
    await writeFile(join(this.folder, 'calls.json'), JSON.stringify(given));
    return JSON.parse(await this.run(program, [...options, 'calls.json'], url));
  }
}
