import { readConfig, redact } from '../config/config.ts';
import { print } from './session.ts';

/** `config`: the effective configuration, in the form of the environment; passwords are replaced. */
export function showConfig({ json }: { json?: boolean }): void {
  const shown = redact(readConfig(process.env));
  const lines = Object.entries(shown).map(([name, value]) => `${name}=${value}`);
  print(json, shown, lines.join('\n'));
}
