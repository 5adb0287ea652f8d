import { styleText } from 'node:util';
import { Command, type HelpConfiguration } from 'commander';

type Style = Parameters<typeof styleText>[0];

// commander removes the colours if the output is no terminal or NO_COLOR is set
const paint = (style: Style) => (text: string) => styleText(style, text, { validateStream: false });

/** Format of the help: commands in the order of their first use, colours on a terminal. */
export const HELP: HelpConfiguration = {
  sortSubcommands: false,
  showGlobalOptions: false,
  styleTitle: paint('bold'),
  styleCommandText: paint('bold'),
  styleSubcommandText: paint('cyan'),
  styleOptionText: paint('cyan'),
  styleArgumentText: paint('yellow'),
};

/** Returns the last part of a command's help: lines that can be run. */
export function examples(...lines: string[]): string {
  return `\n${paint('bold')('Examples:')}\n${lines.map((line) => `  ${line}`).join('\n')}`;
}

/** Command with the parts that most commands have. */
export class CliCommand extends Command {
  override createCommand(name?: string): CliCommand {
    return new CliCommand(name);
  }

  /** Adds examples as the last part of the help. */
  examples(...lines: string[]): this {
    return this.addHelpText('after', examples(...lines));
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
