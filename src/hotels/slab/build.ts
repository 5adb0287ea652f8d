/**
 * Compiles assembly/ to slab.wasm, which is committed, so that nobody needs the compiler to run the service.
 * With `--check` it writes nothing and fails when the committed file is not what the source yields.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import asc from 'assemblyscript/asc';

const HERE = fileURLToPath(new URL('.', import.meta.url));
export const WASM_FILE = `${HERE}slab.wasm`;

const OPTIONS =
  '--runtime stub --importMemory --noExportMemory --zeroFilledMemory --enable simd -O3 --noAssert --converge'.split(
    ' ',
  );

/** The module's bytes; throws an Error that carries what the compiler says. */
export async function compileSlab(): Promise<Uint8Array> {
  let compiled: Uint8Array | undefined;
  const { error, stderr } = await asc.main(
    ['assembly/slab.ts', '--baseDir', HERE, '--outFile', 'slab.wasm', ...OPTIONS],
    {
      writeFile: (_name: string, contents: Uint8Array | string) => {
        if (typeof contents !== 'string') compiled = contents;
      },
    },
  );
  if (error || !compiled) throw new Error(`${error?.message ?? 'no output'}\n${stderr.toString()}`);
  return compiled;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const compiled = await compileSlab();
  if (!process.argv.includes('--check')) writeFileSync(WASM_FILE, compiled);
  else if (!readFileSync(WASM_FILE).equals(compiled)) {
    console.error('slab.wasm is not what its source yields: run `npm run build:wasm`');
    process.exitCode = 1;
  }
}
