import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readConfig, VARIABLES } from '../../src/config/config.ts';
import { codeOf, ROOT, read } from '../documents/files.ts';
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
const { version } = JSON.parse(read('package.json')) as { version: string };

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
/** Workloads of the service, not of its databases. */
const ours = (overlay: Overlay) =>
  workloads(overlay).filter(({ metadata }) => metadata.name.startsWith('hotel-api'));
const podOf = (workload: Manifest): Part => workload.spec.template.spec;
/** Returns the values of every property of this name, at any depth. */
const valuesOf = (part: Part, wanted: string): Part[] =>
  Object.entries(Object(part) === part ? part : {}).flatMap(([name, value]) => [
    ...(name === wanted ? [value] : []),
    ...valuesOf(value, wanted),
  ]);
const containersOf = (workload: Manifest): Part[] => [
  ...(podOf(workload).initContainers ?? []),
  ...podOf(workload).containers,
];
const container = (overlay: Overlay): Part => podOf(one(overlay, 'Deployment')).containers[0];
const settings = (overlay: Overlay): Record<string, string> => one(overlay, 'ConfigMap').data;
const configOf = (overlay: Overlay) =>
  readConfig({ ...settings(overlay), DATABASE_URL: 'postgres://x', REDIS_URL: 'redis://x' });
const bytes = (quantity: string): number =>
  Number.parseFloat(quantity) * ({ Mi: MIB, Gi: 1024 * MIB }[quantity.replace(/[\d.]/g, '')] ?? Number.NaN);
const cores = (quantity: string): number =>
  quantity.endsWith('m') ? Number.parseFloat(quantity) / 1000 : Number(quantity);
const selects = (selector: Record<string, string>, labels: Record<string, string> = {}) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

/** Returns the objects of an overlay, as in docs/operations/kubernetes.md: the following tests would pass without them. */
const required = (overlay: Overlay) => [
  ...['ConfigMap', 'Deployment', 'Service', 'ServiceAccount', 'PodDisruptionBudget', 'NetworkPolicy'],
  overlay === 'production, keda' ? 'ScaledObject' : 'HorizontalPodAutoscaler',
  `Job hotel-api-migrate-${version}`,
  ...(overlay.startsWith('dev')
    ? ['Secret', 'Secret hotel-api-owner', 'StatefulSet postgres', `Job hotel-api-seed-${version}`]
    : [
        ...['PrometheusRule', 'ServiceMonitor', 'AlertmanagerConfig'],
        ...['ExternalSecret', 'ExternalSecret hotel-api-owner'],
        overlay === 'production, gateway' ? 'HTTPRoute' : 'Ingress',
      ]),
];

describe.each(OVERLAYS)('the overlay %s', (overlay) => {
  it('contains the documented objects', () => {
    for (const wanted of required(overlay)) {
      const [kind, name] = wanted.split(' ') as [string, string | undefined];
      expect(one(overlay, kind, name), wanted).toBeDefined();
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
    expect(configOf(overlay)).toMatchObject({ WORKERS: Number(settings(overlay).WORKERS) });
    for (const { name } of valuesOf(ours(overlay), 'env').flat())
      expect([...known, 'NODE_EXTRA_CA_CERTS']).toContain(name);
  });

  it('contains secrets in Secrets only', () => {
    const open = rendered[overlay].filter(({ kind }) => kind !== 'Secret');
    expect(JSON.stringify(open)).not.toMatch(/:\/\/[^"@/\s]*:[^"@/\s]+@/);
    for (const { name, value } of valuesOf(workloads(overlay), 'env').flat())
      if (/PASSWORD|TOKEN|SECRET|_URLS?$/.test(name)) expect(value, name).toBeUndefined();
  });

  it('refers to existing Secrets and ConfigMaps, and to keys that they contain', () => {
    const held = new Map<string, string[]>();
    for (const { kind, metadata, data, spec } of rendered[overlay]) {
      if (kind === 'Secret' || kind === 'ConfigMap') held.set(`${kind} ${metadata.name}`, Object.keys(data));
      if (kind === 'ExternalSecret') held.set(`Secret ${spec.target.name}`, valuesOf(spec.data, 'secretKey'));
    }
    // this one is created by the operator
    held.set('ConfigMap hotel-api-ca', ['ca.crt']);
    for (const { name, key, optional } of valuesOf(workloads(overlay), 'secretKeyRef')) {
      const keys = held.get(`Secret ${name}`);
      expect(keys, name).toBeDefined();
      if (!optional) expect(keys, name).toContain(key);
    }
    for (const [kind, property, name] of [
      ['ConfigMap', 'configMapRef', 'name'],
      ['ConfigMap', 'configMap', 'name'],
      ['Secret', 'secret', 'secretName'],
    ] as const)
      for (const reference of valuesOf(workloads(overlay), property))
        expect([...held.keys()]).toContain(`${kind} ${reference[name]}`);
  });

  it('takes every address from the Secret, as a variable or a file, and requires two of them', () => {
    const isFromFiles = overlay.includes('secret-files');
    const hasAuthority = overlay.includes('certificate-authority');
    const { env, volumeMounts = [] } = container(overlay);
    const sources = Object.fromEntries(
      env.map(({ name, value, valueFrom }: Part) => [name, value ?? valueFrom.secretKeyRef]),
    );
    const inSecret = (key: string) => ({ name: expect.stringMatching(/^hotel-api(-[a-z0-9]{10})?$/), key });
    const { secrets, ca } = Object.fromEntries(volumeMounts.map((each: Part) => [each.name, each.mountPath]));
    expect(sources).toEqual({
      ...(isFromFiles
        ? { DATABASE_URL_FILE: `${secrets}/DATABASE_URL`, REDIS_URL_FILE: `${secrets}/REDIS_URL` }
        : { DATABASE_URL: inSecret('DATABASE_URL'), REDIS_URL: inSecret('REDIS_URL') }),
      DATABASE_REPLICA_URLS: { ...inSecret('DATABASE_REPLICA_URLS'), optional: true },
      ...(hasAuthority && { NODE_EXTRA_CA_CERTS: `${ca}/ca.crt` }),
    });
    const volumes = valuesOf(podOf(one(overlay, 'Deployment')), 'volumes').flat();
    expect(volumes.map(({ name }) => name).sort()).toEqual([
      ...(hasAuthority ? ['ca'] : []),
      ...(isFromFiles ? ['secrets'] : []),
    ]);
  });

  it('selects existing pods and ports, those that the service uses', () => {
    const { PORT, ADMIN_PORT } = configOf(overlay);
    expect(container(overlay).ports).toEqual([
      expect.objectContaining({ name: 'http', containerPort: PORT }),
      expect.objectContaining({ name: 'admin', containerPort: ADMIN_PORT }),
    ]);
    const pods = workloads(overlay).map(({ spec }) => spec.template);
    const selected = (selector: Record<string, string>) =>
      pods.filter(({ metadata }) => selects(selector, metadata.labels));
    for (const { spec } of every(overlay, 'Service')) {
      const ports = selected(spec.selector).flatMap((pod) => pod.spec.containers[0].ports);
      for (const { targetPort } of spec.ports) expect(ports.map(({ name }) => name)).toContain(targetPort);
    }
    for (const { spec } of every(overlay, 'PodDisruptionBudget'))
      expect(selected(spec.selector.matchLabels)).not.toEqual([]);
    const policies = every(overlay, 'NetworkPolicy').map(({ spec }) => spec.podSelector.matchLabels);
    for (const policy of policies) expect(selected(policy)).not.toEqual([]);
    for (const { metadata } of pods)
      expect(policies.filter((policy) => selects(policy, metadata.labels))).toHaveLength(1);
    for (const workload of ours(overlay))
      expect(one(overlay, 'ServiceAccount', podOf(workload).serviceAccountName)).toBeDefined();
    const { template } = one(overlay, 'Deployment').spec;
    for (const { matchLabels } of valuesOf(template.spec.topologySpreadConstraints, 'labelSelector'))
      expect(selects(matchLabels, template.metadata.labels)).toBe(true);
  });

  it('scales the container of the service, whose number of pods nothing else sets', () => {
    const { spec } = one(overlay, 'ScaledObject') ?? one(overlay, 'HorizontalPodAutoscaler');
    const { kind, name } = spec.scaleTargetRef;
    expect(one(overlay, kind, name).spec.replicas).toBeUndefined();
    const measured = [...valuesOf(spec, 'containerName'), ...valuesOf(spec.metrics, 'container')];
    expect(new Set(measured)).toEqual(new Set([container(overlay).name]));
  });

  it('names the peers of every connection out', () => {
    for (const { metadata, spec } of every(overlay, 'NetworkPolicy')) {
      expect(spec.policyTypes, metadata.name).toContain('Egress');
      for (const { to = [], ports = [] } of spec.egress ?? [])
        expect(Math.min(to.length, ports.length), metadata.name).toBeGreaterThan(0);
    }
    if (overlay === 'dev') {
      const { egress } = one('dev', 'NetworkPolicy', 'hotel-api').spec;
      expect(valuesOf(egress, 'app.kubernetes.io/name')).toEqual(['postgres', 'redis']);
    }
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
    // the rule of docs/operations/sizing.md
    const neededBytes = (200 + WORKERS * 612) * MIB + WORKERS * 1.2 * L1_MAX_BYTES;
    expect(bytes(requests.memory)).toBeGreaterThanOrEqual(neededBytes);
  });

  it('runs the migration under the name of the release, with the owner’s login, which no other pod sees', () => {
    const { args, env } = podOf(one(overlay, 'Job', `hotel-api-migrate-${version}`)).containers[0];
    expect(args).toEqual(['migrate']);
    const { valueFrom } = env.find(({ name }: Part) => name === 'DATABASE_URL');
    expect(valueFrom.secretKeyRef.name).toMatch(/^hotel-api-owner/);
    expect(JSON.stringify(podOf(one(overlay, 'Deployment')))).not.toContain('owner');
  });
});

it('the Ingress of production has the service’s own limits, and its Secrets come from outside', () => {
  const [{ metadata, spec }, ...paths] = every('production', 'Ingress') as [Manifest, ...Manifest[]];
  const readTimeoutMs = 1000 * Number.parseFloat(metadata.annotations!['nginx.org/proxy-read-timeout']!);
  const { DATABASE_TIMEOUT_MS, DRAIN_TIMEOUT_MS } = configOf('production');
  expect(readTimeoutMs).toBeGreaterThan(2 * DATABASE_TIMEOUT_MS);
  // requests in progress when a pod drains are answered or time out before the drain ends
  expect(readTimeoutMs).toBeLessThan(DRAIN_TIMEOUT_MS);
  const { hosts } = spec.tls[0];
  expect(spec.rules.map(({ host }: Part) => host)).toEqual(hosts);
  for (const { metadata, spec } of paths) {
    expect(metadata.annotations!['nginx.org/mergeable-ingress-type']).toBe('minion');
    expect(spec.rules.map(({ host }: Part) => host)).toEqual(hosts);
    for (const { name, port } of valuesOf(spec, 'service'))
      expect(valuesOf(one('production', 'Service', name).spec.ports, 'name')).toContain(port.name);
  }
  expect(paths.flatMap(({ spec }) => valuesOf(spec, 'path')).sort()).toEqual(['/', '/changes']);
  expect(every('production', 'Secret')).toEqual([]);
});

it('the pod for commands in docs/operations/kubernetes.md has the rights of the migration Job', async () => {
  const document = read('docs/operations/kubernetes.md');
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

it('manifests and the image have the version of package.json', () => {
  for (const image of valuesOf(workloads('production'), 'image'))
    expect(image.split(':').at(-1)).toBe(version);
  expect(read('Dockerfile')).toContain(`\nARG VERSION=${version}\n`);
});

it.each([
  ['a digest', { digest: `sha256:${'0'.repeat(64)}`, newTag: undefined }, '1.0.0'],
  ['a registry with a port', { digest: undefined, newTag: '1.2.3' }, '1.2.3-rc.1'],
])('with %s, Jobs have names that Kubernetes accepts', async (_, tag, release) => {
  const folder = await temporaryFolder('hotel-api-release-');
  await cp(`${ROOT}k8s`, folder, { recursive: true });
  for (const [overlay, steps] of [
    ['dev', ['migrate', 'seed']],
    ['production', ['migrate']],
  ] as const) {
    const path = join(folder, 'overlays', overlay, 'kustomization.yaml');
    const kustomization = parse(await readFile(path, 'utf8'));
    const newName = 'registry.example.com:5000/hotel-api';
    Object.assign(kustomization.images[0], { newName, ...tag });
    kustomization.labels[0].pairs['app.kubernetes.io/version'] = release;
    await writeFile(path, JSON.stringify(kustomization));
    const manifests = await renderFolder(join(folder, 'overlays', overlay));
    const jobs = manifests.filter(({ kind }) => kind === 'Job');
    expect(jobs.map(({ metadata }) => metadata.name)).toEqual(
      steps.map((step) => `hotel-api-${step}-${release}`),
    );
    const image = newName + (tag.digest ? `@${tag.digest}` : `:${tag.newTag}`);
    expect(new Set(valuesOf(jobs, 'image'))).toEqual(new Set([image]));
  }
});

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
  expect([startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet)).toEqual(
    ['/livez', '/livez', '/readyz'].map((path) => ({ port: 'admin', path })),
  );
  expect(one('production', 'ServiceMonitor').spec.endpoints[0].path).toBe('/metrics');
  const { triggers } = one('production, keda', 'ScaledObject').spec;
  const { metadata } = triggers.find(({ type }: Part) => type === 'prometheus');
  expect(codeOf(await TABLES.metrics!())).toContain(/hotel_api_\w+/.exec(metadata.query)![0]);
});
