import type { Command } from 'commander';

/** A command of the command line: the words behind the program's name, and its options as they are typed. */
export interface DeclaredCommand {
  path: string[];
  options: string[];
}

/** All commands of a program, the program itself first. */
export function commandsOf(command: Command, path: string[] = []): DeclaredCommand[] {
  const help = command.createHelp();
  const options = help.visibleOptions(command).map(({ long }) => long!);
  const children = help.visibleCommands(command);
  return [{ path, options }, ...children.flatMap((child) => commandsOf(child, [...path, child.name()]))];
}
