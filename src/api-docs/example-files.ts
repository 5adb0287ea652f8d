import { readFileSync } from 'node:fs';

/** Files of the examples: shown or linked in the guide, offered for download, and run by a test. */
export const EXAMPLES = [
  'curl.sh',
  'client.ts',
  'usage.ts',
  'client.py',
  'package.json',
  'tsconfig.json',
] as const;
export function readExample(name: string): string {
  return readFileSync(new URL(`examples/${name}`, import.meta.url), 'utf8');
}
