import { createHash } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SOURCES = `${ROOT}src/`;
/** Worktrees may share their packages. */
const FOLDER = `${ROOT}node_modules/.cache/bundle-${createHash('sha1').update(ROOT).digest('hex').slice(0, 8)}/`;

/** Files at which a process of the product starts, by the names of their bundles; `bundle-hook.mjs` knows them too. */
const ENTRIES = { main: `${SOURCES}main.ts`, worker: `${SOURCES}cluster/worker.ts` };

/** Environment in which a process of the product runs from what `bundleSources` wrote. */
export const BUNDLED = {
  NODE_OPTIONS: `--import=${new URL('./bundle-hook.mjs', import.meta.url).href}`,
  TEST_SOURCES: pathToFileURL(SOURCES).href,
  TEST_BUNDLES: pathToFileURL(FOLDER).href,
};

/**
 * Bundles the product and its packages into a few files. Node would strip the types of all files and look for the files of
 * packages at each start, for two thirds of its CPU time, and the tests start more than a thousand processes. The bundled
 * code finds other files by the addresses of its source files.
 */
export async function bundleSources(): Promise<void> {
  const bundle = await rolldown({
    input: ENTRIES,
    platform: 'node',
    // a native module, and packages of which files are read
    external: ['uWebSockets.js', /^swagger-ui-dist/],
    plugins: [
      {
        name: 'addresses of source files',
        transform: (code, id) =>
          id.startsWith(SOURCES)
            ? code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
            : undefined,
      },
    ],
  });
  const { output } = await bundle.generate({ format: 'esm', chunkFileNames: '[name].js' });
  await bundle.close();
  await mkdir(FOLDER, { recursive: true });
  for (const file of output) {
    const path = FOLDER + file.fileName;
    // at once, because processes of another run may load it
    await writeFile(`${path}.${process.pid}`, file.type === 'chunk' ? file.code : file.source);
    await rename(`${path}.${process.pid}`, path);
  }
}
