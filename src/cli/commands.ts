import type { CliCommand } from './common/help.ts';

/** The commands in the order of their first use. Each file declares its command and does the work. */
const COMMANDS: Record<string, () => Promise<{ addCommand(program: CliCommand): void }>> = {
  serve: () => import('./serve.ts'),
  migrate: () => import('./migrate.ts'),
  keys: () => import('./keys.ts'),
  collections: () => import('./collections.ts'),
  import: () => import('./import.ts'),
  seed: () => import('./seed.ts'),
  config: () => import('./config.ts'),
  health: () => import('./health.ts'),
};

/**
 * Adds the command with this name, or all commands if there is none. A command starts without the libraries of the
 * others.
 */
export async function addCommands(program: CliCommand, name = ''): Promise<void> {
  const named = Object.hasOwn(COMMANDS, name) ? [COMMANDS[name]!] : Object.values(COMMANDS);
  for (const load of named) (await load()).addCommand(program);
}
