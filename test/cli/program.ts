import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, vi } from 'vitest';
import { addCommands } from '../../src/cli/commands.ts';
import { CliCommand } from '../../src/cli/common/help.ts';
import { Failure } from '../../src/lib/failure.ts';
import { BUNDLED } from '../support/bundle.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';

export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export interface Outcome {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Starts the real program with only these variables in its environment, by default in the folder of the project. */
export function startProgram(
  args: string[],
  env: NodeJS.ProcessEnv,
  { input = '', cwd }: { input?: string | Buffer; cwd?: string } = {},
): { child: ChildProcess; outcome: Promise<Outcome> } {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd,
    env: { ...BUNDLED, ...env },
  });
  child.stdin.end(input);
  return { child, outcome: outcomeOf(child) };
}

/** Resolves when a process has exited. */
export async function outcomeOf(
  child: ChildProcessByStdio<Writable | null, Readable, Readable>,
): Promise<Outcome> {
  const all = [text(child.stdout), text(child.stderr), once(child, 'close')] as const;
  const [stdout, stderr, [code]] = await Promise.all(all);
  return { code, stdout, stderr };
}

/** The real program, in its own folder and on its own database. */
export class Program {
  readonly database: FreshDatabase;
  readonly folder: string;
  /** what the last `importHere` has printed on standard error */
  printed = '';

  private constructor(database: FreshDatabase, folder: string) {
    this.database = database;
    this.folder = folder;
  }

  /** `database` replaces its own database. */
  static async set(database?: FreshDatabase): Promise<Program> {
    const folder = await temporaryFolder('cli-');
    return new Program(database ?? (await freshDatabase()), folder);
  }

  /** Starts it with only the database or the given variables in its environment. */
  start(
    args: string[],
    input: string | Buffer = '',
    env: NodeJS.ProcessEnv = { DATABASE_URL: this.database.ownerUrl },
  ): ReturnType<typeof startProgram> {
    return startProgram(args, env, { input, cwd: this.folder });
  }

  run(args: string[], input?: string | Buffer, env?: NodeJS.ProcessEnv): Promise<Outcome> {
    return this.start(args, input, env).outcome;
  }

  /** Runs a command with --json. Returns its document and its exit code. */
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
  async json(args: string[], input?: string | Buffer): Promise<any> {
    return documentOf(await this.run([...args, '--json'], input));
  }

  /** Runs a command in this process, which starts faster than the program. Throws its `Failure`. */
  async here(args: string[]): Promise<Outcome> {
    const printed = { stdout: '', stderr: '' };
    const spies = (['stdout', 'stderr'] as const).map((name) =>
      vi.spyOn(process[name], 'write').mockImplementation((chunk) => {
        printed[name] += chunk;
        return true;
      }),
    );
    vi.stubEnv('DATABASE_URL', this.database.ownerUrl);
    const command = new CliCommand('hotel-api').exitOverride();
    const listeners = process.listeners('uncaughtException');
    try {
      await addCommands(command, args[0]);
      await command.parseAsync(args, { from: 'user' });
      return { code: Number(process.exitCode ?? 0), ...printed };
    } finally {
      process.exitCode = undefined;
      for (const added of process.listeners('uncaughtException'))
        if (!listeners.includes(added)) process.removeListener('uncaughtException', added);
      vi.unstubAllEnvs();
      for (const spy of spies) spy.mockRestore();
    }
  }

  /** Runs a command with --json in this process, like `json`. */
  async jsonHere(args: string[]): ReturnType<Program['json']> {
    return documentOf(await this.here([...args, '--json']));
  }
}

function documentOf({ stdout, stderr, code }: Outcome) {
  if (stdout === '') throw new Error(`nothing was printed, but: ${stderr}`);
  return { code, ...JSON.parse(stdout) };
}

/** Writes a file into the folder of the program, and returns its path. */
export async function put(program: Program, name: string, content: string | Buffer): Promise<string> {
  const path = join(program.folder, name);
  await writeFile(path, content);
  return path;
}

/**
 * Imports a file with this content in this process. Returns what `json` returns, or the message and the exit code of a
 * failure.
 */
export async function importHere(
  program: Program,
  name: string,
  content: string | Buffer,
  ...options: string[]
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
): Promise<any> {
  const path = await put(program, name, content);
  try {
    const outcome = await program.here(['import', path, '--json', ...options]);
    program.printed = outcome.stderr;
    return documentOf(outcome);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { code: error.exitCode, failure: error.message };
  }
}

const COUNTERS = {
  inserted: 0,
  updated: 0,
  unchanged: 0,
  deleted: 0,
  rejected: 0,
  converted_uris: 0,
};

/** Returns the printed JSON and the exit code of an import, with any notes; other numbers are 0. */
export function counts(of: Partial<typeof COUNTERS>) {
  const all = { ...COUNTERS, ...of };
  return { code: all.rejected > 0 ? 1 : 0, ...all, notes: expect.any(Array) };
}
