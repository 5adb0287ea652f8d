import type { Command } from 'commander';

/** A word that may stand next, and what it does. */
export interface Word {
  word: string;
  description: string;
}

/** What may stand behind the words of a command. */
export interface Context {
  /** the words behind the program's name: `[]`, `['keys']`, `['keys', 'create']` */
  path: string[];
  /** commands, or the values that its argument may have */
  words: Word[];
  options: (Word & { takesValue: boolean })[];
  /** true: its argument is a file */
  takesFile: boolean;
}

/** The contexts of a program, the outermost first, as its commands are declared. */
export function contextsOf(command: Command, path: string[] = []): Context[] {
  const help = command.createHelp();
  const children = help.visibleCommands(command);
  const argument = command.registeredArguments[0];
  const context: Context = {
    path,
    words: [
      ...children.map((child) => ({ word: child.name(), description: child.description() })),
      ...(argument?.argChoices ?? []).map((word) => ({ word, description: '' })),
    ],
    options: help.visibleOptions(command).map(({ long, description, required, optional }) => ({
      word: long!,
      description,
      takesValue: required || optional,
    })),
    takesFile: argument?.name() === 'file',
  };
  return [context, ...command.commands.flatMap((child) => contextsOf(child, [...path, child.name()]))];
}

/** What the scripts of shells look for on a line: the words of commands, and those up to an option that takes a value. */
export function phrasesOf(contexts: Context[]): { commands: string[]; valued: string[] } {
  return {
    commands: contexts.filter(({ path }) => path.length > 0).map(({ path }) => path.join(' ')),
    valued: contexts.flatMap(({ path, options }) =>
      options.filter(({ takesValue }) => takesValue).map(({ word }) => [...path, word].join(' ')),
    ),
  };
}
