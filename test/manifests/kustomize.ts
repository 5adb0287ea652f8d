import { writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { temporaryFolder } from '../support/cleanup.ts';
import { pathOf } from '../support/programs.ts';
import { run } from '../support/run.ts';

/** Rendered object, as the API server would receive it. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: Record<string, string>; annotations?: Record<string, string> };
  // biome-ignore lint/suspicious/noExplicitAny: each kind has its own form, which the schemas check
  [field: string]: any;
}

const K8S = fileURLToPath(new URL('../../k8s/', import.meta.url));

/** Renders an overlay with components of k8s/components. The kustomizations require version 5.0, which kubectl 1.27 contains. */
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
  const program = (await pathOf('kubectl'))!;
  const command = program.endsWith('kustomize') ? 'build' : 'kustomize';
  return parseAllDocuments(await run(program, [command, folder])).map((document) => document.toJS());
}
