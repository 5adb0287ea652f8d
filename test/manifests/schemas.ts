import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/run.ts';
import type { Manifest } from './kustomize.ts';

const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url));
/** Locations of the models of API groups; the others are Kubernetes' own. */
const PACKAGES: [group: RegExp, name: string][] = [
  [/^monitoring\.coreos\.com\//, '@kubernetes-models/prometheus-operator'],
  [/^external-secrets\.io\//, '@kubernetes-models/external-secrets'],
  [/^keda\.sh\//, '@kubernetes-models/keda'],
  [/^gateway\.networking\.k8s\.io\//, '@kubernetes-models/gateway-api'],
];

function moduleOf({ apiVersion }: Manifest): string {
  const name = PACKAGES.find(([group]) => group.test(apiVersion))?.[1] ?? 'kubernetes-models';
  return `${name}/${apiVersion}`;
}

/** Returns the errors of the API's schemas for an object: wrong types, values out of bounds, missing fields. */
export async function faultsBySchema(manifest: Manifest): Promise<string[]> {
  const models = await import(moduleOf(manifest));
  const Model = models[manifest.kind];
  if (!Model) return [`${manifest.apiVersion} knows no ${manifest.kind}`];
  try {
    new Model(manifest).validate();
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

/**
 * Returns fields that the API does not know and would drop without a message. The schemas permit them, but the
 * compiler rejects them in a literal of the model's type.
 */
export async function unknownFields(manifests: Manifest[]): Promise<string> {
  const folder = await temporaryFolder('hotel-api-manifests-');
  await symlink(MODULES, join(folder, 'node_modules'));
  const literals = manifests.map(
    (manifest, i) =>
      `import type { I${manifest.kind} as T${i} } from '${moduleOf(manifest)}';\n` +
      `export const m${i}: T${i} = ${JSON.stringify(manifest, null, 1)};`,
  );
  const file = join(folder, 'manifests.ts');
  await writeFile(file, literals.join('\n'));
  const options = '--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext --target es2024';
  const tsc = join(MODULES, 'typescript/bin/tsc');
  const compiling = run(process.execPath, [tsc, ...options.split(' '), file]);
  return compiling.catch(({ stdout }: { stdout: string }) => stdout);
}
