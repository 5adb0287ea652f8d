import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

/** Folders of what the simulation runs; biome.json restricts globals and imports in the same ones. */
const FOLDERS = 'auth cache changes cluster collections hotels http lib log postgres rate-limit'.split(' ');
const EXCEPT = /\.(test|fixture)\.ts$|^lib\/clock\.ts$|^postgres\/migrate\.ts$/;
/** Members of globals, which the linter cannot restrict. */
const OWN_TIME = /\bDate\.now\(|\bnew Date\(\)|\bMath\.random\(|\bprocess\.(hrtime|uptime)\b/;

it('code that the simulation runs knows time and chance from src/lib/clock.ts alone', () => {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(new URL(folder, import.meta.url), { recursive: true }).map((name) => `${folder}/${name}`),
  ).filter((file) => file.endsWith('.ts') && !EXCEPT.test(file));
  expect(files.length).toBeGreaterThan(100);
  const own = files.filter((file) => OWN_TIME.test(readFileSync(new URL(file, import.meta.url), 'utf8')));
  expect(own).toEqual([]);
});
