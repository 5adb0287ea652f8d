import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readConfig, VARIABLES } from '../../src/config/config.ts';
import { codeOf } from '../documents/files.ts';
import { TABLES } from '../documents/tables.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { needs } from '../support/needs.ts';
import { type Manifest, render, renderFolder } from './kustomize.ts';
import { faultsBySchema, unknownFields } from './schemas.ts';

await needs('kubectl');

const MIB = 1024 ** 2;
/** Overlays, and production with each component that changes it. */
const OVERLAYS = [
  'dev',
  'production',
  ...(['keda', 'gateway', 'managed-services', 'certificate-authority', 'secret-files'] as const).map(
    (component) => `production, ${component}` as const,
  ),
  'dev, certificate-authority, secret-files',
] as const;
type Overlay = (typeof OVERLAYS)[number];
const DEFAULTS = readConfig({ DATABASE_URL: 'postgres://unused' });
const { version } = JSON.parse(
  await readFile(fileURLToPath(new URL('../../package.json', import.meta.url)), 'utf8'),
) as { version: string };

// biome-ignore lint/suspicious/noExplicitAny: parts of objects whose form the schemas check
type Part = any;

const rendered = {} as Record<Overlay, Manifest[]>;

beforeAll(async () => {
  await Promise.all(
    OVERLAYS.map(async (overlay) => {
      const [name, ...components] = overlay.split(', ') as [string, ...string[]];
      rendered[overlay] = await render(name, ...components);
    }),
  );
});

const every = (overlay: Overlay, kind: string) =>
  rendered[overlay].filter((manifest) => manifest.kind === kind);
const one = (overlay: Overlay, kind: string, name = 'hotel-api'): Manifest =>
  every(overlay, kind).find(
    ({ metadata }) => metadata.name.replace(/-[a-z0-9]{10}$/, '') === name || metadata.name === name,
  )!;
const workloads = (overlay: Overlay) =>
  rendered[overlay].filter(({ kind }) => ['Deployment', 'StatefulSet', 'Job'].includes(kind));
const podOf = (workload: Manifest): Part => workload.spec.template.spec;
const containersOf = (workload: Manifest): Part[] => [
  ...(podOf(workload).initContainers ?? []),
  ...podOf(workload).containers,
];
const container = (overlay: Overlay): Part => podOf(one(overlay, 'Deployment')).containers[0];
/** Returns the target of the autoscaler, of Kubernetes or KEDA, and the container that it measures. */
function scaling(overlay: Overlay): { target: Part; measured: string } {
  const keda = one(overlay, 'ScaledObject')?.spec;
  const spec = keda ?? one(overlay, 'HorizontalPodAutoscaler').spec;
  const measured = keda
    ? keda.triggers[0].metadata.containerName
    : spec.metrics[0].containerResource.container;
  return { target: spec.scaleTargetRef, measured };
}
const settings = (overlay: Overlay): Record<string, string> => one(overlay, 'ConfigMap').data;
const configOf = (overlay: Overlay) =>
  readConfig({ ...settings(overlay), DATABASE_URL: 'postgres://x', REDIS_URL: 'redis://x' });
const bytes = (quantity: string): number =>
  Number.parseFloat(quantity) * ({ Mi: MIB, Gi: 1024 * MIB }[quantity.replace(/[\d.]/g, '')] ?? Number.NaN);
const cores = (quantity: string): number =>
  quantity.endsWith('m') ? Number.parseFloat(quantity) / 1000 : Number(quantity);
/** Maximum memory of an instance, as in docs/operations/sizing.md. */
const neededBytes = (workers: number, l1MaxBytes: number) =>
  (200 + workers * 612) * MIB + workers * 1.2 * l1MaxBytes;
const selects = (selector: Record<string, string>, labels: Record<string, string> = {}) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

const isDev = (overlay: Overlay) => overlay.startsWith('dev');
/**
 * Returns the objects of an overlay, as in docs/operations/kubernetes.md. Without this test, the following ones would pass
 * for missing objects.
 */
const required = (overlay: Overlay) => [
  ...['ConfigMap hotel-api', 'Deployment hotel-api', 'Service hotel-api', 'ServiceAccount hotel-api'],
  ...['PodDisruptionBudget hotel-api', 'NetworkPolicy hotel-api', `Job hotel-api-migrate-${version}`],
  ...(isDev(overlay)
    ? [
        ...['Secret hotel-api', 'Secret hotel-api-owner', 'StatefulSet postgres'],
        `Job hotel-api-seed-${version}`,
      ]
    : [
        ...['PrometheusRule hotel-api', 'ServiceMonitor hotel-api', 'AlertmanagerConfig hotel-api'],
        'ExternalSecret hotel-api',
        overlay === 'production, gateway' ? 'HTTPRoute hotel-api' : 'Ingress hotel-api',
      ]),
  overlay === 'production, keda' ? 'ScaledObject hotel-api' : 'HorizontalPodAutoscaler hotel-api',
];

describe.each(OVERLAYS)('the overlay %s', (overlay) => {
  it('contains exactly the documented objects', () => {
    for (const name of required(overlay)) {
      const [kind, of] = name.split(' ') as [string, string];
      expect(one(overlay, kind, of), name).toBeDefined();
    }
  });

  it('conforms to the schemas of the API and of its extensions', async () => {
    const faults = await Promise.all(rendered[overlay].map(faultsBySchema));
    expect(faults.flat()).toEqual([]);
    expect(await unknownFields(rendered[overlay])).toBe('');
  });

  it('gives every container limits, and rights that the restricted standard permits', () => {
    for (const workload of workloads(overlay)) {
      const pod = podOf(workload);
      expect(pod).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: expect.any(Number),
          seccompProfile: { type: 'RuntimeDefault' },
        },
      });
      for (const { resources, securityContext, imagePullPolicy } of containersOf(workload)) {
        for (const part of [resources.requests, resources.limits]) {
          expect(cores(part.cpu)).toBeGreaterThan(0);
          expect(bytes(part.memory)).toBeGreaterThan(0);
          expect(bytes(part['ephemeral-storage'])).toBeGreaterThan(0);
        }
        expect(imagePullPolicy).toBe('IfNotPresent');
        // memory that is not available when it is needed means a killed pod
        expect(bytes(resources.limits.memory)).toBeLessThanOrEqual(4 * bytes(resources.requests.memory));
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
      }
    }
  });

  it('sets variables that the service knows, to valid values', () => {
    const known = Object.keys(DEFAULTS);
    expect(Object.keys(settings(overlay)).filter((name) => !known.includes(name))).toEqual([]);
    const config = configOf(overlay);
    expect(config).toMatchObject({ WORKERS: Number(settings(overlay).WORKERS) });
    for (const { env = [] } of workloads(overlay)
      .filter((w) => w.metadata.name.startsWith('hotel-api'))
      .flatMap(containersOf)) {
      for (const { name } of env) expect([...known, 'NODE_EXTRA_CA_CERTS']).toContain(name);
    }
  });

  it('contains secrets in Secrets only', () => {
    const open = rendered[overlay].filter(({ kind }) => kind !== 'Secret');
    expect(JSON.stringify(open)).not.toMatch(/:\/\/[^"@/\s]*:[^"@/\s]+@/);
    for (const { env = [] } of workloads(overlay).flatMap(containersOf)) {
      for (const { name, value } of env as Part[]) {
        if (/PASSWORD|TOKEN|SECRET|_URLS?$/.test(name)) expect(value, name).toBeUndefined();
      }
    }
  });

  it('refers to existing Secrets and ConfigMaps, and to keys that they contain', () => {
    const held = new Map<string, string[]>();
    for (const { kind, metadata, data, spec } of rendered[overlay]) {
      if (kind === 'Secret' || kind === 'ConfigMap') held.set(`${kind} ${metadata.name}`, Object.keys(data));
      if (kind === 'ExternalSecret')
        held.set(
          `Secret ${spec.target.name}`,
          spec.data.map(({ secretKey }: Part) => secretKey),
        );
    }
    for (const workload of workloads(overlay)) {
      for (const { env = [], envFrom = [] } of containersOf(workload)) {
        for (const { valueFrom } of env as Part[]) {
          if (!valueFrom) continue;
          const keys = held.get(`Secret ${valueFrom.secretKeyRef.name}`);
          expect(keys).toBeDefined();
          if (!valueFrom.secretKeyRef.optional) expect(keys).toContain(valueFrom.secretKeyRef.key);
        }
        for (const { configMapRef } of envFrom) expect(held.has(`ConfigMap ${configMapRef.name}`)).toBe(true);
      }
      for (const { configMap, secret } of podOf(workload).volumes ?? []) {
        if (secret) expect(held.has(`Secret ${secret.secretName}`)).toBe(true);
        // this one is created by the operator
        if (configMap && configMap.name !== 'hotel-api-ca')
          expect(held.has(`ConfigMap ${configMap.name}`)).toBe(true);
      }
    }
  });

  it('selects existing pods and ports', () => {
    const pods = workloads(overlay).map(({ spec }) => spec.template);
    const selected = (selector: Record<string, string>) =>
      pods.filter(({ metadata }) => selects(selector, metadata.labels));
    for (const { spec } of every(overlay, 'Service')) {
      const ports = selected(spec.selector).flatMap((pod) =>
        pod.spec.containers[0].ports.map(({ name }: Part) => name),
      );
      for (const { targetPort } of spec.ports) expect(ports).toContain(targetPort);
    }
    for (const kind of ['PodDisruptionBudget', 'NetworkPolicy']) {
      for (const { spec } of every(overlay, kind))
        expect(selected((spec.selector ?? spec.podSelector).matchLabels)).not.toEqual([]);
    }
    const deployment = one(overlay, 'Deployment');
    const { target, measured } = scaling(overlay);
    expect(one(overlay, target.kind, target.name).spec.replicas).toBeUndefined();
    expect(measured).toBe(container(overlay).name);
    for (const workload of workloads(overlay).filter(({ metadata }) => metadata.name.startsWith('hotel-api')))
      expect(one(overlay, 'ServiceAccount', podOf(workload).serviceAccountName)).toBeDefined();
    for (const { labelSelector } of podOf(deployment).topologySpreadConstraints)
      expect(selects(labelSelector.matchLabels, deployment.spec.template.metadata.labels)).toBe(true);
    // a network policy covers every pod
    for (const { metadata } of pods) {
      const policies = every(overlay, 'NetworkPolicy').filter(({ spec }) =>
        selects(spec.podSelector.matchLabels, metadata.labels),
      );
      expect(policies.length).toBe(1);
    }
  });

  it('names the peers of every connection out', () => {
    for (const { metadata, spec } of every(overlay, 'NetworkPolicy')) {
      expect(spec.policyTypes, metadata.name).toContain('Egress');
      for (const { to, ports } of spec.egress ?? []) {
        expect(to, `${metadata.name} ${JSON.stringify(ports)}`).toEqual(
          expect.arrayContaining([expect.anything()]),
        );
        expect(ports, metadata.name).toEqual(expect.arrayContaining([expect.anything()]));
      }
    }
    if (overlay === 'dev') {
      const { egress } = one('dev', 'NetworkPolicy', 'hotel-api').spec;
      const peers = egress
        .slice(1)
        .map(({ to }: Part) => to[0].podSelector.matchLabels['app.kubernetes.io/name']);
      expect(peers).toEqual(['postgres', 'redis']);
    }
  });

  it('listens on the ports that the service uses', () => {
    const { PORT, ADMIN_PORT } = configOf(overlay);
    expect(container(overlay).ports).toEqual([
      expect.objectContaining({ name: 'http', containerPort: PORT }),
      expect.objectContaining({ name: 'admin', containerPort: ADMIN_PORT }),
    ]);
  });

  it('gives a pod the time for its drain, with the longest wait too', () => {
    const { DRAIN_WAIT_MS, DRAIN_TIMEOUT_MS } = configOf(overlay);
    const longestMs = VARIABLES.DRAIN_WAIT_MS.maximum;
    const { terminationGracePeriodSeconds: graceS } = podOf(one(overlay, 'Deployment'));
    const preStopS = container(overlay).lifecycle.preStop.sleep.seconds;
    // src/cluster/start-workers.ts: the workers' margins, then four releases of at most 2 s
    const releaseS = 3 + 4 * 2;
    expect(graceS).toBeGreaterThanOrEqual(preStopS + (longestMs + DRAIN_TIMEOUT_MS) / 1000 + releaseS);
    // an unready pod is removed from the Service before it stops accepting
    const { periodSeconds, failureThreshold } = container(overlay).readinessProbe;
    expect(preStopS + DRAIN_WAIT_MS / 1000).toBeGreaterThanOrEqual(periodSeconds * failureThreshold);
  });

  it('requests a core for each worker, and the memory of the workers', () => {
    const { WORKERS, L1_MAX_BYTES } = configOf(overlay);
    const { requests, limits } = container(overlay).resources;
    expect(cores(requests.cpu)).toBe(WORKERS);
    expect(cores(limits.cpu)).toBeGreaterThan(WORKERS);
    expect(limits.memory).toBe(requests.memory);
    expect(bytes(requests.memory)).toBeGreaterThanOrEqual(neededBytes(WORKERS, L1_MAX_BYTES));
  });

  it('runs the migration under the name of the release, with the owner’s login, which no other pod sees', () => {
    const [migrate] = every(overlay, 'Job').filter(({ metadata }) =>
      metadata.name.startsWith('hotel-api-migrate'),
    );
    const { args, env } = podOf(migrate!).containers[0];
    expect(migrate!.metadata.name).toBe(`hotel-api-migrate-${version}`);
    expect(args).toEqual(['migrate']);
    const { valueFrom } = env.find(({ name }: Part) => name === 'DATABASE_URL');
    expect(valueFrom.secretKeyRef.name).toMatch(/^hotel-api-owner/);
    expect(JSON.stringify(podOf(one(overlay, 'Deployment')))).not.toContain('owner');
  });
});

it.each(OVERLAYS.filter((overlay) => !overlay.includes('secret-files')))(
  '%s takes every address from the Secret, and requires at most two of them',
  (overlay) => {
    const addresses = Object.keys(DEFAULTS).filter((name) => /^(DATABASE|REDIS)_.*URLS?$/.test(name));
    const given = (container(overlay).env as Part[]).filter(({ valueFrom }) => valueFrom);
    expect(given.map(({ name }) => name).sort()).toEqual(addresses.sort());
    expect(given.filter(({ valueFrom }) => !valueFrom.secretKeyRef.optional).map(({ name }) => name)).toEqual(
      ['DATABASE_URL', 'REDIS_URL'],
    );
  },
);

describe('production', () => {
  it('has an Ingress that keeps connections, repeats only reads, and has the service’s own limits', () => {
    const { metadata, spec } = one('production', 'Ingress');
    const annotation = (name: string): string => metadata.annotations![`nginx.org/${name}`]!;
    expect(Number(annotation('keepalive'))).toBeGreaterThan(0);
    expect(annotation('client-max-body-size')).toBe('1m');
    const [, ...paths] = every('production', 'Ingress');
    for (const { metadata } of paths)
      expect(metadata.annotations).toMatchObject({
        'nginx.org/mergeable-ingress-type': 'minion',
        'nginx.org/proxy-next-upstream': 'error timeout non_idempotent',
      });
    const { DATABASE_TIMEOUT_MS, DRAIN_TIMEOUT_MS } = configOf('production');
    expect(1000 * Number.parseFloat(annotation('proxy-read-timeout'))).toBeGreaterThan(
      2 * DATABASE_TIMEOUT_MS,
    );
    // requests in progress when a pod drains are answered or time out before the drain ends
    expect(1000 * Number.parseFloat(annotation('proxy-read-timeout'))).toBeLessThan(DRAIN_TIMEOUT_MS);
    expect(spec.tls[0].hosts).toEqual(spec.rules.map(({ host }: Part) => host));
    const backends = paths.flatMap(({ spec: { rules } }) => {
      expect(rules.map(({ host }: Part) => host)).toEqual(spec.tls[0].hosts);
      return rules[0].http.paths.map(({ path, backend }: Part) => [path, backend]);
    });
    expect(backends.map(([path]) => path).sort()).toEqual(['/', '/changes']);
    for (const [, { service }] of backends) {
      const { ports } = one('production', 'Service', service.name).spec;
      expect(ports.map(({ name }: Part) => name)).toContain(service.port.name);
    }
  });

  it('takes its Secrets from outside', () => {
    expect(every('production', 'Secret')).toEqual([]);
    expect(every('production', 'ExternalSecret').map(({ spec }) => spec.target.name)).toEqual([
      'hotel-api',
      'hotel-api-owner',
    ]);
  });
});

it('the pod for commands in docs/operations/kubernetes.md has the rights of the migration Job', async () => {
  const document = await readFile(new URL('../../docs/operations/kubernetes.md', import.meta.url), 'utf8');
  const pod: Manifest = parse(/^kubectl apply -f - <<'EOF'\n(.*?)^EOF$/ms.exec(document)![1]!);
  expect(await faultsBySchema(pod)).toEqual([]);
  expect(await unknownFields([pod])).toBe('');
  const job = one('production', 'Job', 'hotel-api-migrate-1.0.0');
  const { securityContext, automountServiceAccountToken } = podOf(job);
  expect(pod.spec).toMatchObject({ securityContext, automountServiceAccountToken });
  const [container] = pod.spec.containers;
  expect(container.securityContext).toEqual(podOf(job).containers[0].securityContext);
  expect(container.image).toBe(podOf(job).containers[0].image);
  const { name, key } = podOf(job).containers[0].env[0].valueFrom.secretKeyRef;
  expect(container.envFrom).toEqual([{ secretRef: { name } }]);
  expect(key).toBe('DATABASE_URL');
  // the root file system is read-only, and an import from standard input is copied there first
  expect(container.env).toEqual([{ name: 'TMPDIR', value: container.volumeMounts[0].mountPath }]);
  // the network policy that admits PostgreSQL
  const { podSelector } = one('production', 'NetworkPolicy', 'hotel-api-jobs').spec;
  expect(pod.metadata.labels).toMatchObject(podSelector.matchLabels);
});

it('the autoscaler of dev requires at most the connections that its PostgreSQL has', () => {
  const { WORKERS, DATABASE_POOL_SIZE } = configOf('dev');
  const { maxReplicas } = one('dev', 'HorizontalPodAutoscaler').spec;
  const { maxSurge } = one('dev', 'Deployment').spec.strategy.rollingUpdate;
  const [, maxConnections] = podOf(one('dev', 'StatefulSet', 'postgres')).containers[0].args[1].split('=');
  // a roll-out starts the next pod while two are ending; three connections are reserved for the superuser
  const pods = maxReplicas + maxSurge + 2;
  expect(pods * (WORKERS * DATABASE_POOL_SIZE + 2)).toBeLessThanOrEqual(maxConnections - 3);
});

it('manifests and the image have the version of package.json', async () => {
  for (const workload of workloads('production'))
    for (const { image } of containersOf(workload)) expect(image.split(':').at(-1)).toBe(version);
  const dockerfile = await readFile(fileURLToPath(new URL('../../Dockerfile', import.meta.url)), 'utf8');
  expect(dockerfile).toContain(`\nARG VERSION=${version}\n`);
});

it.each([
  ['a digest', `@sha256:${'0'.repeat(64)}`, '1.0.0'],
  ['a registry with a port', ':1.2.3', '1.2.3-rc.1'],
])('with %s, Jobs have names that Kubernetes accepts', async (_, tag, release) => {
  const folder = await temporaryFolder('hotel-api-release-');
  await cp(fileURLToPath(new URL('../../k8s', import.meta.url)), folder, { recursive: true });
  for (const overlay of ['dev', 'production']) {
    const path = join(folder, 'overlays', overlay, 'kustomization.yaml');
    const kustomization = parse(await readFile(path, 'utf8'));
    const [image] = kustomization.images;
    Object.assign(image, { newName: 'registry.example.com:5000/hotel-api' });
    Object.assign(
      image,
      tag.startsWith('@') ? { digest: tag.slice(1), newTag: undefined } : { newTag: tag.slice(1) },
    );
    kustomization.labels[0].pairs['app.kubernetes.io/version'] = release;
    await writeFile(path, JSON.stringify(kustomization));
    const manifests = await renderFolder(join(folder, 'overlays', overlay));
    const jobs = manifests.filter(({ kind }) => kind === 'Job');
    const steps = overlay === 'dev' ? ['migrate', 'seed'] : ['migrate'];
    expect(jobs.map(({ metadata }) => metadata.name)).toEqual(
      steps.map((step) => `hotel-api-${step}-${release}`),
    );
    for (const job of jobs)
      for (const { image } of containersOf(job))
        expect(image).toBe(`registry.example.com:5000/hotel-api${tag}`);
  }
});

it.each(['production, secret-files', 'dev, certificate-authority, secret-files'] as const)(
  '%s reads addresses from files that the Secret contains',
  (overlay) => {
    const { env, volumeMounts } = container(overlay);
    const variables = new Map<string, string>(env.map(({ name, value }: Part) => [name, value]));
    const { mountPath } = volumeMounts.find(({ name }: Part) => name === 'secrets');
    for (const name of ['DATABASE_URL', 'REDIS_URL']) {
      expect(variables.has(name)).toBe(false);
      expect(variables.get(`${name}_FILE`)).toBe(`${mountPath}/${name}`);
    }
    const names = podOf(one(overlay, 'Deployment')).volumes.map(({ name }: Part) => name);
    expect(names.sort()).toEqual(overlay.includes('certificate') ? ['ca', 'secrets'] : ['secrets']);
  },
);

it('what replaces an object of the base has its bounds: KEDA and the Gateway', () => {
  const { advanced, minReplicaCount, maxReplicaCount } = one('production, keda', 'ScaledObject').spec;
  const { spec } = one('production', 'HorizontalPodAutoscaler');
  expect(minReplicaCount).toBeGreaterThanOrEqual(3);
  expect(advanced.horizontalPodAutoscalerConfig).toEqual({ name: 'hotel-api', behavior: spec.behavior });
  expect([minReplicaCount, maxReplicaCount]).toEqual([spec.minReplicas, spec.maxReplicas]);
  expect(every('production, gateway', 'Ingress')).toEqual([]);
  for (const { backendRefs } of one('production, gateway', 'HTTPRoute').spec.rules) {
    const [{ name, port }] = backendRefs;
    expect(one('production, gateway', 'Service', name).spec.ports[0].port).toBe(port);
  }
});

it('probed paths and scraped metrics exist in the service', async () => {
  const { startupProbe, livenessProbe, readinessProbe } = container('production');
  const paths = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => [
    httpGet.port,
    httpGet.path,
  ]);
  expect(paths).toEqual(['/livez', '/livez', '/readyz'].map((path) => ['admin', path]));
  expect(one('production', 'ServiceMonitor').spec.endpoints[0].path).toBe('/metrics');
  const { triggers } = one('production, keda', 'ScaledObject').spec;
  const { metadata } = triggers.find(({ type }: Part) => type === 'prometheus');
  expect(codeOf(await TABLES.metrics!())).toContain(/hotel_api_\w+/.exec(metadata.query)![0]);
});
