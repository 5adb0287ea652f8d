import { readFileSync } from 'node:fs';

/** The files of the examples: shown here, handed out, and run by a test. */
export const EXAMPLES = ['curl.sh', 'client.ts', 'usage.ts', 'client.py'] as const;
export function readExample(name: string): string {
  return readFileSync(new URL(`examples/${name}`, import.meta.url), 'utf8');
}
