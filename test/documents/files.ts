import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Returns the text of a file, by its path from the root of the repository. */
export const read = (path: string): string => readFileSync(ROOT + path, 'utf8');

/** README.md, everything in docs/, and the files that GitHub recognises, as paths from the root. */
export const documents: string[] = [
  'README.md',
  '.github/CONTRIBUTING.md',
  '.github/SECURITY.md',
  ...(readdirSync(`${ROOT}docs`, { recursive: true }) as string[])
    .filter((path) => path.endsWith('.md'))
    .map((path) => `docs/${path}`)
    .sort(),
];

/** Returns fenced blocks of code with their language. */
export function blocksOf(markdown: string): { language: string; text: string }[] {
  return [...markdown.matchAll(/^ *```(\w*)\n([\s\S]*?)^ *```/gm)].map(([, language, text]) => ({
    language: language!,
    text: text!,
  }));
}

/** Returns Markdown without its fenced blocks of code. */
export const proseOf = (markdown: string): string => markdown.replace(/^ *```[\s\S]*?^ *```/gm, '');

/** Returns the text in backticks outside of fenced blocks. */
export const codeOf = (markdown: string): string[] =>
  [...proseOf(markdown).matchAll(/(`+)([^`].*?)\1/g)].map(([, , text]) => text!);

export const unique = (words: Iterable<string>): string[] => [...new Set(words)].sort();
