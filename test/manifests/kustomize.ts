import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { findProgram } from '../../src/demo/servers/programs.ts';

/** A rendered object, as the API server would get it. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: Record<string, string>; annotations?: Record<string, string> };
  // biome-ignore lint/suspicious/noExplicitAny: each kind has its own form, which the schemas check
  [field: string]: any;
}

const OVERLAYS = fileURLToPath(new URL('../../k8s/overlays/', import.meta.url));
const run = promisify(execFile);
/** What the kustomizations use came with 5.0: kubectl 1.27 has it. */
const MAJOR = 5;

/** The objects of an overlay, rendered by the kustomize or kubectl of the PATH. */
export async function render(overlay: string): Promise<Manifest[]> {
  const { stdout } = await run(...(await rendererOf(OVERLAYS + overlay)), { maxBuffer: 64 * 1024 ** 2 });
  return parseAllDocuments(stdout).map((document) => document.toJS());
}

async function rendererOf(folder: string): Promise<[file: string, args: string[]]> {
  const kustomize = await findProgram(['kustomize']);
  if (kustomize && (await isRecent(kustomize, ['version']))) return [kustomize, ['build', folder]];
  const kubectl = await findProgram(['kubectl']);
  if (kubectl && (await isRecent(kubectl, ['version', '--client']))) return [kubectl, ['kustomize', folder]];
  throw new Error(
    'This test renders k8s/: install kustomize 5 or kubectl 1.27, or newer (Debian 13: apt-get install kubernetes-client)',
  );
}

async function isRecent(program: string, args: string[]): Promise<boolean> {
  const { stdout } = await run(program, args);
  return Number(/v(\d+)\.\d+\.\d+\s*$/m.exec(stdout.replace(/^Client Version.*$/m, ''))?.[1] ?? 0) >= MAJOR;
}
