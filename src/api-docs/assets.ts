import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const LIBRARY = import.meta.resolve('swagger-ui-dist/package.json');

/** Own files of the documentation, by name. */
export const OWN = { 'page.css': ownFile('page.css'), 'page.js': ownFile('page.js') };

/** Files of the examples: shown or linked in the guide, offered for download, and run by a test. */
export const EXAMPLES = [
  'curl.sh',
  'client.ts',
  'usage.ts',
  'client.py',
  'package.json',
  'tsconfig.json',
] as const;

/** Path of the documentation's files. It names their content, so they may be cached forever. */
export const ASSETS = `/docs/assets/${versionOf(Object.values(OWN))}`;

/** Reads a file of the library that shows the reference. */
export function readLibraryFile(name: string): Promise<Buffer> {
  return readFile(fileURLToPath(new URL(name, LIBRARY)));
}

export function readExample(name: string): string {
  return readFileSync(new URL(`examples/${name}`, import.meta.url), 'utf8');
}

/** Hash of the own files and of the library's version. */
function versionOf(own: Buffer[]): string {
  const versions = Buffer.concat([...own, readFileSync(fileURLToPath(LIBRARY))]);
  return hash('sha1', versions, 'base64url').slice(0, 12);
}

function ownFile(name: string): Buffer {
  return readFileSync(new URL(`page/${name}`, import.meta.url));
}
