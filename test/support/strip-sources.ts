import { createHash } from 'node:crypto';
import { access, glob, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { fileURLToPath } from 'node:url';

// writes the product's files without types, as Node strips them, under the hash of their content: see stripped.ts
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const FOLDER = `${ROOT}node_modules/.cache/stripped/`;

await mkdir(FOLDER, { recursive: true });
for await (const path of glob('src/**/*.ts', { cwd: ROOT, exclude: ['src/wasm/assembly'] })) {
  const text = await readFile(ROOT + path);
  const stripped = `${FOLDER}${createHash('sha1').update(text).digest('hex')}.js`;
  const isThere = await access(stripped).then(
    () => true,
    () => false,
  );
  if (isThere) continue;
  // another run may write the same file
  await writeFile(`${stripped}.${process.pid}`, stripTypeScriptTypes(text.toString()));
  await rename(`${stripped}.${process.pid}`, stripped);
}
