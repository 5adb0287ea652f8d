import type { Command } from 'commander';
import { contextsOf } from './contexts.ts';
import { SHELLS } from './shells.ts';

/** `completion SHELL`: prints the shell's script, made of the commands as they are declared. */
export async function printCompletion(program: Command, shell: keyof typeof SHELLS): Promise<void> {
  const write = await SHELLS[shell]();
  process.stdout.write(write(program.name(), contextsOf(program)));
}
