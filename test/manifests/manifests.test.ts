import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readConfig } from '../../src/config/config.ts';
import { Program } from '../cli/program.ts';
import { needs } from '../support/needs.ts';
import { startService } from '../support/service.ts';
import { type Manifest, render } from './kustomize.ts';
import { faultsBySchema, unknownFields } from './schemas.ts';

await needs('kubectl');

const MIB = 1024 ** 2;
const OVERLAYS = ['dev', 'production', 'hpa-custom'] as const;
type Overlay = (typeof OVERLAYS)[number];
const DEFAULTS = readConfig({ DATABASE_URL: 'postgres://unused' });

// biome-ignore lint/suspicious/noExplicitAny: parts of objects whose form the schemas check
type Part = any;

const rendered = {} as Record<Overlay, Manifest[]>;

beforeAll(async () => {
  await Promise.all(
    OVERLAYS.map(async (overlay) => Object.assign(rendered, { [overlay]: await render(overlay) })),
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
const settings = (overlay: Overlay): Record<string, string> => one(overlay, 'ConfigMap').data;
const configOf = (overlay: Overlay) =>
  readConfig({ ...settings(overlay), DATABASE_URL: 'postgres://x', REDIS_URL: 'redis://x' });
const bytes = (quantity: string): number =>
  Number.parseFloat(quantity) * ({ Mi: MIB, Gi: 1024 * MIB }[quantity.replace(/[\d.]/g, '')] ?? Number.NaN);
const cores = (quantity: string): number =>
  quantity.endsWith('m') ? Number.parseFloat(quantity) / 1000 : Number(quantity);
/** What an instance takes at most, as docs/operations/sizing.md has it. */
const neededBytes = (workers: number, l1MaxBytes: number) =>
  (300 + workers * 400) * MIB + workers * l1MaxBytes;
const selects = (selector: Record<string, string>, labels: Record<string, string> = {}) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

/** What an overlay has, as docs/operations/kubernetes.md has it: what follows would say nothing of objects that are gone. */
const REQUIRED: Record<Overlay, string[]> = {
  dev: ['Secret hotel-api', 'Secret hotel-api-owner', 'Job hotel-api-seed', 'StatefulSet postgres'],
  production: ['Ingress hotel-api', 'ServiceMonitor hotel-api', 'ExternalSecret hotel-api'],
  'hpa-custom': ['Ingress hotel-api', 'ServiceMonitor hotel-api', 'ExternalSecret hotel-api'],
};
const REQUIRED_EVERYWHERE = [
  ...[
    'ConfigMap hotel-api',
    'Deployment hotel-api',
    'Service hotel-api',
    'HorizontalPodAutoscaler hotel-api',
  ],
  ...['PodDisruptionBudget hotel-api', 'NetworkPolicy hotel-api'],
];

describe.each(OVERLAYS)('the overlay %s', (overlay) => {
  it('has all the objects that it is to have', () => {
    for (const name of [...REQUIRED_EVERYWHERE, ...REQUIRED[overlay]]) {
      const [kind, of] = name.split(' ') as [string, string];
      expect(one(overlay, kind, of), name).toBeDefined();
    }
    const deployment = one(overlay, 'Deployment');
    const { matchLabels } = one(overlay, 'PodDisruptionBudget').spec.selector;
    expect(selects(matchLabels, deployment.spec.template.metadata.labels)).toBe(true);
    const spread: Part[] = podOf(deployment).topologySpreadConstraints;
    expect(spread.map(({ topologyKey }) => topologyKey)).toEqual([
      'topology.kubernetes.io/zone',
      'kubernetes.io/hostname',
    ]);
  });

  it('scales the service up at once, and down slowly, and never to a single pod in production', () => {
    const { scaleTargetRef, minReplicas, maxReplicas, behavior } = one(
      overlay,
      'HorizontalPodAutoscaler',
    ).spec;
    expect(scaleTargetRef).toMatchObject({ kind: 'Deployment', name: 'hotel-api' });
    expect(minReplicas).toBeGreaterThanOrEqual(overlay === 'dev' ? 1 : 3);
    expect(maxReplicas).toBeGreaterThan(minReplicas);
    const { scaleUp, scaleDown } = behavior;
    expect(scaleUp).toMatchObject({ stabilizationWindowSeconds: 0, selectPolicy: 'Max' });
    expect(scaleUp.policies).toContainEqual({ type: 'Percent', value: 100, periodSeconds: 30 });
    expect(scaleDown).toEqual({
      stabilizationWindowSeconds: 300,
      policies: [{ type: 'Pods', value: 1, periodSeconds: 60 }],
    });
  });

  it('is what the schemas of the API and of its extensions allow', async () => {
    const faults = await Promise.all(rendered[overlay].map(faultsBySchema));
    expect(faults.flat()).toEqual([]);
    expect(await unknownFields(rendered[overlay])).toBe('');
  });

  it('runs images of a pinned tag, and one of ours for all of a release', () => {
    const images = workloads(overlay).flatMap((workload) =>
      containersOf(workload).map(({ image }) => image as string),
    );
    for (const image of images) expect(image).toMatch(/:v?\d+\.\d+[\w.-]*$/);
    expect(new Set(images.filter((image) => image.includes('hotel-api'))).size).toBe(1);
  });

  it('gives every container limits, and rights that the restricted standard allows', () => {
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
      for (const { resources, securityContext } of containersOf(workload)) {
        for (const part of [resources.requests, resources.limits]) {
          expect(cores(part.cpu)).toBeGreaterThan(0);
          expect(bytes(part.memory)).toBeGreaterThan(0);
        }
        // memory that is not there when it is asked for is a pod that is killed
        expect(bytes(resources.limits.memory)).toBeLessThanOrEqual(4 * bytes(resources.requests.memory));
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
      }
    }
  });

  it('probes everything that goes on running', () => {
    for (const workload of workloads(overlay).filter(({ kind }) => kind !== 'Job')) {
      for (const probed of podOf(workload).containers)
        expect(probed).toMatchObject({
          startupProbe: expect.any(Object),
          livenessProbe: expect.any(Object),
          readinessProbe: expect.any(Object),
        });
    }
  });

  it('sets variables that the service knows, to values that it takes', () => {
    const known = Object.keys(DEFAULTS);
    expect(Object.keys(settings(overlay)).filter((name) => !known.includes(name))).toEqual([]);
    const config = configOf(overlay);
    expect(config).toMatchObject({ WORKERS: Number(settings(overlay).WORKERS) });
    for (const { env = [] } of workloads(overlay)
      .filter((w) => w.metadata.name.startsWith('hotel-api'))
      .flatMap(containersOf)) {
      for (const { name } of env) expect(known).toContain(name);
    }
  });

  it('keeps secrets out of everything but Secrets', () => {
    const open = rendered[overlay].filter(({ kind }) => kind !== 'Secret');
    expect(JSON.stringify(open)).not.toMatch(/:\/\/[^"@/\s]*:[^"@/\s]+@/);
    for (const { env = [] } of workloads(overlay).flatMap(containersOf)) {
      for (const { name, value } of env as Part[]) {
        if (/PASSWORD|TOKEN|SECRET|_URL/.test(name)) expect(value, name).toBeUndefined();
      }
    }
  });

  it('refers to Secrets and ConfigMaps that are there, and to keys that they hold', () => {
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
      for (const { configMap } of podOf(workload).volumes ?? []) {
        if (configMap) expect(held.has(`ConfigMap ${configMap.name}`)).toBe(true);
      }
    }
  });

  it('selects pods and ports that there are', () => {
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
    for (const { spec } of every(overlay, 'HorizontalPodAutoscaler')) {
      const scaled = one(overlay, spec.scaleTargetRef.kind, spec.scaleTargetRef.name);
      expect(scaled.spec.replicas).toBeUndefined();
      expect(spec.metrics[0].containerResource.container).toBe(container(overlay).name);
    }
    const deployment = one(overlay, 'Deployment');
    for (const { labelSelector } of podOf(deployment).topologySpreadConstraints)
      expect(selects(labelSelector.matchLabels, deployment.spec.template.metadata.labels)).toBe(true);
    // every pod is behind a policy
    for (const { metadata } of pods) {
      const policies = every(overlay, 'NetworkPolicy').filter(({ spec }) =>
        selects(spec.podSelector.matchLabels, metadata.labels),
      );
      expect(policies.length).toBe(1);
    }
  });

  it('listens where the service does', () => {
    const { PORT, ADMIN_PORT } = configOf(overlay);
    expect(container(overlay).ports).toEqual([
      expect.objectContaining({ name: 'http', containerPort: PORT }),
      expect.objectContaining({ name: 'admin', containerPort: ADMIN_PORT }),
    ]);
  });

  it('gives a pod the time that its drain takes', () => {
    const { DRAIN_WAIT_MS, DRAIN_TIMEOUT_MS } = configOf(overlay);
    const { terminationGracePeriodSeconds: graceS } = podOf(one(overlay, 'Deployment'));
    const preStopS = container(overlay).shutdown.preStop.sleep.seconds;
    // src/cluster/primary.ts: the workers' margin, then four releases of at most 2 s
    const releaseS = 2 + 4 * 2;
    expect(graceS).toBeGreaterThanOrEqual(preStopS + (DRAIN_WAIT_MS + DRAIN_TIMEOUT_MS) / 1000 + releaseS);
    // an unready pod is out of the Service before it stops accepting
    const { periodSeconds, failureThreshold } = container(overlay).readinessProbe;
    expect(preStopS + DRAIN_WAIT_MS / 1000).toBeGreaterThanOrEqual(periodSeconds * failureThreshold);
  });

  it('asks for a core for each worker, and for the memory that the workers take', () => {
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
    const { image, args, env } = podOf(migrate!).containers[0];
    expect(migrate!.metadata.name).toBe(`hotel-api-migrate-${image.split(':').at(-1)}`);
    expect(args).toEqual(['migrate']);
    expect(env[0].valueFrom.secretKeyRef.name).toMatch(/^hotel-api-owner/);
    expect(JSON.stringify(podOf(one(overlay, 'Deployment')))).not.toContain('owner');
  });
});

it.each(OVERLAYS)('%s takes every address from the Secret, and needs no more than two of them', (overlay) => {
  const addresses = Object.keys(DEFAULTS).filter((name) => /^(DATABASE|REDIS)_.*URLS?$/.test(name));
  const given = container(overlay).env as Part[];
  expect(given.map(({ name }) => name).sort()).toEqual(addresses.sort());
  expect(given.filter(({ valueFrom }) => !valueFrom.secretKeyRef.optional).map(({ name }) => name)).toEqual([
    'DATABASE_URL',
    'REDIS_URL',
  ]);
});

it.each(OVERLAYS)('%s lets the service reach PgBouncer', (overlay) => {
  const { egress } = one(overlay, 'NetworkPolicy').spec;
  const ports = egress.flatMap((rule: Part) => rule.ports.map(({ port }: Part) => port));
  expect(ports).toEqual(expect.arrayContaining([5432, 6432, 6379]));
});

it('the rights in Redis come for one server and for a cluster', () => {
  const { data } = one('dev', 'ConfigMap', 'redis-acl');
  expect(Object.keys(data).sort()).toEqual(['users-cluster.acl', 'users.acl']);
});

describe('production', () => {
  it('has an Ingress that keeps no connection idle, repeats what only reads, and has the service’s own limits', () => {
    const { metadata, spec } = one('production', 'Ingress');
    const annotation = (name: string): string => metadata.annotations![`nginx.org/${name}`]!;
    expect(annotation('keepalive')).toBe('0');
    expect(annotation('proxy-next-upstream')).toBe('error timeout non_idempotent');
    expect(annotation('client-max-body-size')).toBe('1m');
    const { DATABASE_TIMEOUT_MS, DRAIN_TIMEOUT_MS } = configOf('production');
    expect(1000 * Number.parseFloat(annotation('proxy-read-timeout'))).toBeGreaterThan(
      2 * DATABASE_TIMEOUT_MS,
    );
    // what is under way when a pod drains is answered or given up before the drain is over
    expect(1000 * Number.parseFloat(annotation('proxy-read-timeout'))).toBeLessThan(DRAIN_TIMEOUT_MS);
    expect(spec.tls[0].hosts).toEqual(spec.rules.map(({ host }: Part) => host));
    const [{ backend }] = spec.rules[0].http.paths;
    const { spec: service } = one('production', 'Service', backend.service.name);
    expect(service.ports.map(({ name }: Part) => name)).toContain(backend.service.port.name);
  });

  it('has its Secrets from outside', () => {
    expect(every('production', 'Secret')).toEqual([]);
    expect(every('production', 'ExternalSecret').map(({ spec }) => spec.target.name)).toEqual([
      'hotel-api',
      'hotel-api-owner',
    ]);
  });

  it('is scraped at the admin port of every pod', () => {
    const { spec } = one('production', 'ServiceMonitor');
    const services = every('production', 'Service').filter(({ metadata }) =>
      selects(spec.selector.matchLabels, metadata.labels),
    );
    expect(services.map(({ spec }) => spec.ports[0])).toEqual([
      expect.objectContaining({ name: spec.endpoints[0].port, targetPort: 'admin' }),
    ]);
    expect(services[0]!.spec).toMatchObject({ clusterIP: 'None', publishNotReadyAddresses: true });
  });
});

it('what the API would refuse or drop is found', async () => {
  const broken = structuredClone(one('production', 'Deployment'));
  podOf(broken).containers[0].readinessProbe.periodSeconds = 'often';
  expect(await faultsBySchema(broken)).toEqual([expect.stringContaining('periodSeconds')]);
  const misspelt = structuredClone(one('production', 'Deployment'));
  podOf(misspelt).terminationGracePeriodSecond = 30;
  expect(await faultsBySchema(misspelt)).toEqual([]);
  expect(await unknownFields([misspelt])).toContain('terminationGracePeriodSecond');
});

it('the autoscaler of dev asks for no more connections than its PostgreSQL has', () => {
  const { WORKERS, DATABASE_POOL_SIZE } = configOf('dev');
  const { maxReplicas } = one('dev', 'HorizontalPodAutoscaler').spec;
  const { maxSurge } = one('dev', 'Deployment').spec.strategy.rollingUpdate;
  const [, maxConnections] = podOf(one('dev', 'StatefulSet', 'postgres')).containers[0].args[1].split('=');
  // the superuser's three are kept back
  expect((maxReplicas + maxSurge) * (WORKERS * DATABASE_POOL_SIZE + 2)).toBeLessThanOrEqual(
    maxConnections - 3,
  );
});

it('the seed Job of dev runs: migration, hotels, a key', async () => {
  const program = await Program.set();
  const steps = containersOf(one('dev', 'Job', 'hotel-api-seed'));
  expect(steps.map(({ name }) => name)).toEqual(['migrate', 'seed', 'key']);
  for (const { args } of steps) {
    const { code, stderr } = await program.run(args);
    expect(code, stderr).toBe(0);
  }
  const [row] = await program.database.sql`
    select (select count(*)::int from hotels) as hotels, (select scopes from api_keys) as scopes`;
  expect(row).toEqual({ hotels: 20_000, scopes: ['registry'] });
});

it('the base carries the tag of this release', async () => {
  const { version } = JSON.parse(
    await readFile(fileURLToPath(new URL('../../package.json', import.meta.url)), 'utf8'),
  );
  for (const workload of workloads('production'))
    for (const { image } of containersOf(workload)) expect(image.split(':').at(-1)).toBe(version);
});

it('what is probed, scraped and scaled by is what the service answers', async () => {
  const service = await startService();
  const { startupProbe, livenessProbe, readinessProbe } = container('production');
  for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe]) {
    expect(httpGet.port).toBe('admin');
    expect((await service.admin(httpGet.path)).status).toBe(200);
  }
  expect(readinessProbe.httpGet.path).toBe('/readyz');
  const { path } = one('production', 'ServiceMonitor').spec.endpoints[0];
  const metrics = (await service.admin(path)).text;

  const { metrics: scaledBy } = one('hpa-custom', 'HorizontalPodAutoscaler').spec;
  const adapter = parse(
    await readFile(
      fileURLToPath(new URL('../../k8s/overlays/hpa-custom/prometheus-adapter.yaml', import.meta.url)),
      'utf8',
    ),
  );
  for (const { pods } of scaledBy.filter(({ type }: Part) => type === 'Pods')) {
    expect(metrics).toMatch(new RegExp(`^${pods.metric.name}(\\{.*\\})? \\d`, 'm'));
    const [rule] = adapter.rules.custom.filter(({ name }: Part) => name.matches === pods.metric.name);
    expect(rule.seriesQuery).toMatch(new RegExp(`^${pods.metric.name}\\{`));
    const { WORKERS, DATABASE_POOL_SIZE } = configOf('hpa-custom');
    expect(Number(pods.target.averageValue)).toBe(WORKERS * DATABASE_POOL_SIZE);
  }
});
