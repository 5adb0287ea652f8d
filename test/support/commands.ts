import type { Command } from 'commander';

/** Command of the command line: its words behind the program's name, and its options. */
export interface DeclaredCommand {
  path: string[];
  options: string[];
}

/** Returns all commands of a program, the program itself first. */
export function commandsOf(command: Command, path: string[] = []): DeclaredCommand[] {
  const help = command.createHelp();
  const options = help.visibleOptions(command).map(({ long }) => long!);
  const children = help.visibleCommands(command);
  return [{ path, options }, ...children.flatMap((child) => commandsOf(child, [...path, child.name()]))];
}
