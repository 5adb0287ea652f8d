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
