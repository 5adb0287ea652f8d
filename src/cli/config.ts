import { readConfig, redact } from '../config/config.ts';
import { print } from './session.ts';

/** Runs `config`: prints the effective configuration as environment variables, with passwords replaced. */
export function showConfig({ json }: { json?: boolean }): void {
  const shown = redact(readConfig(process.env));
  const lines = Object.entries(shown).map(([name, value]) => `${name}=${value}`);
  print(json, shown, lines.join('\n'));
}
