/**
 * Compiles the modules of assembly/ to the committed .wasm files beside this program. With `--check` it writes nothing
 * and fails if a committed file differs from its source.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import asc from 'assemblyscript/asc';

const HERE = fileURLToPath(new URL('.', import.meta.url));
/** Programs, and the files of assembly/ that export their calls. */
const MODULES = { cache: 'cache.ts', deflate: 'deflate/deflate.ts' };
const OPTIONS =
  '--runtime stub --importMemory --noExportMemory --zeroFilledMemory --enable simd -O3 --converge'.split(' ');

/** Compiles one module to bytes; throws an Error with the compiler's output. */
async function compile(name: string, entry: string): Promise<Uint8Array> {
  let compiled: Uint8Array | undefined;
  const { error, stderr } = await asc.main(
    [`assembly/${entry}`, '--baseDir', HERE, '--outFile', `${name}.wasm`, ...OPTIONS],
    {
      writeFile: (_name: string, contents: Uint8Array | string) => {
        if (typeof contents !== 'string') compiled = contents;
      },
    },
  );
  if (error || !compiled) throw new Error(`${error?.message ?? 'no output'}\n${stderr.toString()}`);
  return compiled;
}

for (const [name, entry] of Object.entries(MODULES)) {
  const compiled = await compile(name, entry);
  const file = `${HERE}${name}.wasm`;
  if (!process.argv.includes('--check')) writeFileSync(file, compiled);
  else if (!readFileSync(file).equals(compiled)) {
    console.error(`${name}.wasm differs from its source: run \`npm run build:wasm\``);
    process.exitCode = 1;
  }
}
