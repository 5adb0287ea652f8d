import type { Context } from './contexts.ts';

/** Writes the completion script of a shell for the program with this name. */
export type Writer = (name: string, contexts: Context[]) => string;

// A library was looked at: @bomb.sh/tab 0.0.22 asks the program at every Tab, which takes it 0.2 s, completes no file
// names behind `import`, and its script for bash needs a package that many machines lack.
/** The shells that can be told how to complete, each with its writer. */
export const SHELLS: Record<'bash' | 'zsh' | 'fish', () => Promise<Writer>> = {
  bash: async () => (await import('./bash.ts')).bashScript,
  zsh: async () => (await import('./zsh.ts')).zshScript,
  fish: async () => (await import('./fish.ts')).fishScript,
};
