/**
 * Compiles the modules of assembly/ to the .wasm files beside this program. The files are committed, so running the
 * service needs no compiler. With `--check` it writes nothing and fails when a committed file differs from what the source
 * yields.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import asc from 'assemblyscript/asc';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const MODULES = ['batch-body', 'arena', 'redis-batch'];
const OPTIONS =
  '--runtime stub --importMemory --noExportMemory --zeroFilledMemory --enable simd -O3 --noAssert --converge'.split(
    ' ',
  );

/** The bytes of a module; throws an Error that carries what the compiler says. */
async function compile(name: string): Promise<Uint8Array> {
  let compiled: Uint8Array | undefined;
  const { error, stderr } = await asc.main(
    [`assembly/${name}/${name}.ts`, '--baseDir', HERE, '--outFile', `${name}.wasm`, ...OPTIONS],
    {
      writeFile: (_name: string, contents: Uint8Array | string) => {
        if (typeof contents !== 'string') compiled = contents;
      },
    },
  );
  if (error || !compiled) throw new Error(`${error?.message ?? 'no output'}\n${stderr.toString()}`);
  return compiled;
}

for (const name of MODULES) {
  const compiled = await compile(name);
  const file = `${HERE}${name}.wasm`;
  if (!process.argv.includes('--check')) writeFileSync(file, compiled);
  else if (!readFileSync(file).equals(compiled)) {
    console.error(`${name}.wasm is not what its source yields: run \`npm run build:wasm\``);
    process.exitCode = 1;
  }
}
