import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { findProgram } from '../../src/demo/servers/programs.ts';
import { temporaryFolder } from '../support/cleanup.ts';

/** Rendered object, as the API server would receive it. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: Record<string, string>; annotations?: Record<string, string> };
  // biome-ignore lint/suspicious/noExplicitAny: each kind has its own form, which the schemas check
  [field: string]: any;
}

const K8S = fileURLToPath(new URL('../../k8s/', import.meta.url));
const run = promisify(execFile);
/** The kustomizations require version 5.0, which kubectl 1.27 contains. */
const MAJOR = 5;

/** Renders an overlay with components of k8s/components, by the kustomize or kubectl of the PATH. */
export async function render(overlay: string, ...components: string[]): Promise<Manifest[]> {
  const folder = await temporaryFolder('hotel-api-kustomize-');
  await writeFile(
    join(folder, 'kustomization.yaml'),
    JSON.stringify({
      apiVersion: 'kustomize.config.k8s.io/v1beta1',
      kind: 'Kustomization',
      resources: [relative(folder, K8S + join('overlays', overlay))],
      components: components.map((component) => relative(folder, K8S + join('components', component))),
    }),
  );
  return renderFolder(folder);
}

/** Renders any kustomization. */
export async function renderFolder(folder: string): Promise<Manifest[]> {
  const { stdout } = await run(...(await rendererOf(folder)), { maxBuffer: 64 * 1024 ** 2 });
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
