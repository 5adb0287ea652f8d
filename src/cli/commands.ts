import type { Command } from 'commander';

/** The commands in the order of their first use. Each file declares its command and does the work. */
const COMMANDS: Record<string, () => Promise<{ addCommand(program: Command): void }>> = {
  serve: () => import('./serve.ts'),
  migrate: () => import('./migrate.ts'),
  keys: () => import('./keys.ts'),
  collections: () => import('./collections.ts'),
  import: () => import('./import.ts'),
  mirror: () => import('./mirror.ts'),
  export: () => import('./export.ts'),
  seed: () => import('./seed.ts'),
  config: () => import('./config.ts'),
  health: () => import('./health.ts'),
  'check-freshness': () => import('./check-freshness.ts'),
};

/**
 * Adds the command with this name, or all commands if there is none. A command starts without the libraries of the
 * others.
 */
export async function addCommands(program: Command, name = ''): Promise<void> {
  const named = Object.hasOwn(COMMANDS, name) ? [COMMANDS[name]!] : Object.values(COMMANDS);
  for (const load of named) (await load()).addCommand(program);
}
