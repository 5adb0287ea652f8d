import { spawn } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { MAIN, type Outcome, outcomeOf } from '../cli/program.ts';
import { temporaryFolder } from '../support/cleanup.ts';

/** Shell of an operator in a new folder, with `hotel-api` on the PATH and these variables. */
export class Operator {
  readonly folder: string;
  readonly #environment: NodeJS.ProcessEnv;

  private constructor(folder: string, environment: NodeJS.ProcessEnv) {
    this.folder = folder;
    this.#environment = environment;
  }

  /** Creates the shell; `main` is the command line of another release. */
  static async set(variables: Record<string, string>, main = MAIN): Promise<Operator> {
    const folder = await temporaryFolder('operator-');
    const program = join(folder, 'hotel-api');
    await writeFile(program, `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`);
    await chmod(program, 0o755);
    return new Operator(folder, {
      ...variables,
      PATH: `${folder}${delimiter}${process.env.PATH}`,
      HOME: folder,
      PGCONNECT_TIMEOUT: '5',
    });
  }

  /** Runs these lines of docs/operations/runbook.md. Returns the output; throws with it if a command failed. */
  async types(commands: string): Promise<string> {
    const { code, stdout, stderr } = await this.tries(commands);
    if (code !== 0) throw new Error(`exit code ${code}:\n${stdout}${stderr}`);
    return stdout;
  }

  tries(commands: string): Promise<Outcome> {
    const options = { cwd: this.folder, env: this.#environment };
    return outcomeOf(
      spawn('bash', ['-euo', 'pipefail', '-c', commands], { ...options, stdio: ['ignore', 'pipe', 'pipe'] }),
    );
  }
}
