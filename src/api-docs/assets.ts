import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

const LIBRARY = import.meta.resolve('swagger-ui-dist/package.json');

/** Own files of the documentation, by name. */
export const OWN = { 'page.css': ownFile('page.css'), 'page.js': ownFile('page.js') };

/** Files of the examples: shown or linked in the guide, offered for download, and run by a test. */
export const EXAMPLES = [
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

/** Reads a file of the library that shows the reference. */
export function readLibraryFile(name: string): Promise<Buffer> {
  return readFile(new URL(name, LIBRARY));
}

export function readExample(name: string): string {
  return readFileSync(new URL(`examples/${name}`, import.meta.url), 'utf8');
}

function ownFile(name: string): Buffer {
  return readFileSync(new URL(`page/${name}`, import.meta.url));
}
