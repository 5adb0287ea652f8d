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

/** Command with the parts that most commands have. */
export class CliCommand extends Command {
  override createCommand(name?: string): CliCommand {
    return new CliCommand(name);
  }

  /** Adds examples as the last part of the help: lines that can be run. */
  examples(...lines: string[]): this {
    const title = paint('bold')('Examples:');
    return this.addHelpText('after', ['', title, ...lines.map((line) => `  ${line}`)].join('\n'));
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
