import { readFileSync } from 'node:fs';

/** Files of the examples: shown or linked in the guide, offered for download, and run by a test. */
export const EXAMPLE_FILES = [
  'curl.sh',
  'client.ts',
  'usage.ts',
  'sqlite-copy.ts',
  'client.py',
  'sqlite_copy.py',
  'package.json',
  'tsconfig.json',
] as const;

/** Path of the documentation's files. */
export const ASSETS = '/docs/assets';

export function readExample(name: string): string {
  return readFileSync(new URL(`examples/${name}`, import.meta.url), 'utf8');
}
