import { Command } from 'commander';

/** Command with the parts that most commands have. */
export class CliCommand extends Command {
  override createCommand(name?: string): CliCommand {
    return new CliCommand(name);
  }

  /** Adds examples as the last part of the help: lines that can be run. */
  examples(...lines: string[]): this {
    return this.addHelpText('after', ['', 'Examples:', ...lines.map((line) => `  ${line}`)].join('\n'));
  }

  /** Adds the option `--json`, whose document has this form. */
  json(form: string): this {
    return this.option('--json', `print one JSON document: ${form}`);
  }
}

/** Makes usage errors of a command and its subcommands point to the help of that command. */
export function pointToHelp(command: Command, path = command.name()): void {
  command.showHelpAfterError(`Help: ${path} --help`);
  for (const child of command.commands) pointToHelp(child, `${path} ${child.name()}`);
}
