import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const LIBRARY = import.meta.resolve('swagger-ui-dist/package.json');

/** Files of ours that the documentation loads, by their names. */
export const OWN = { 'page.css': ownFile('page.css'), 'page.js': ownFile('page.js') };

/** Where the documentation's files are: the address names their bytes, so they may be kept for ever. */
export const ASSETS = `/docs/assets/${versionOf(Object.values(OWN))}`;

/** A file of the library that shows the reference. */
export function readLibraryFile(name: string): Promise<Buffer> {
  return readFile(fileURLToPath(new URL(name, LIBRARY)));
}

/** Of our bytes and the library's version, which stands for its bytes. */
function versionOf(own: Buffer[]): string {
  const versions = Buffer.concat([...own, readFileSync(fileURLToPath(LIBRARY))]);
  return hash('sha1', versions, 'base64url').slice(0, 12);
}

function ownFile(name: string): Buffer {
  return readFileSync(new URL(`page/${name}`, import.meta.url));
}
