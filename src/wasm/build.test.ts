import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { it } from 'vitest';

it('the committed .wasm files are compiled from their sources; npm run build:wasm updates', async () => {
  const build = `${import.meta.dirname}/build.ts`;
  await promisify(execFile)(process.execPath, [build, '--check']);
});
