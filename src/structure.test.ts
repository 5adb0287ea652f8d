import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('.', import.meta.url));
/** Names and source of an import or export statement, which may span lines. */
const STATEMENT = /^(?:import|export)\s(?:([^'";]*?)\sfrom\s)?'([^']+)'/gm;
const DYNAMIC = /\bimport\('([^']+)'\)/g;

interface Import {
  /** both relative to src; packages by name */
  from: string;
  to: string;
  isPackage: boolean;
  /** the imported names as written */
  names: string;
  /** type stripping removes the whole statement */
  isTypeOnly: boolean;
}

// AssemblyScript has its own module system
const files = (readdirSync(ROOT, { recursive: true }) as string[])
  .filter((file) => file.endsWith('.ts') && !/\.(test|fixture|d)\.ts$|\/assembly\//.test(file))
  .sort();
const imports = files.flatMap(importsOf);

function importsOf(from: string): Import[] {
  const text = readFileSync(join(ROOT, from), 'utf8');
  const found: Import[] = [];
  for (const [, names, to] of text.matchAll(STATEMENT)) found.push(resolve(from, to!, names ?? ''));
  for (const [, to] of text.matchAll(DYNAMIC)) found.push(resolve(from, to!, ''));
  return found;
}

function isTypeOnly(names: string): boolean {
  if (names.startsWith('type ')) return true;
  const listed = /^\{([^}]*)\}$/.exec(names.trim())?.[1];
  const each = listed?.split(',').map((name) => name.trim());
  return each?.filter(Boolean).every((name) => name.startsWith('type ')) ?? false;
}

function resolve(from: string, to: string, names: string): Import {
  const isPackage = !to.startsWith('.');
  const place = isPackage ? to : relative(ROOT, join(ROOT, dirname(from), to));
  return { from, to: place, isPackage, names, isTypeOnly: isTypeOnly(names) };
}

/** Returns the top folder of a file, or the file itself at the top. */
function partOf(file: string): string {
  return file.split('/')[0]!;
}

/** Returns the forbidden imports as `from → to`. */
function wrong(isWrong: (statement: Import) => boolean): string[] {
  return imports.filter(isWrong).map(({ from, to }) => `${from} → ${to}`);
}

/** Folders and files of src in layers. Each may import from itself and those above it, types included. */
const LAYERS = [
  ...['lib', 'errors.ts', 'config', 'wasm', 'postgres', 'redis', 'hotels', 'observability', 'log', 'changes'],
  ...['collections', 'cache', 'rate-limit', 'auth', 'http', 'api-docs', 'cluster', 'cli', 'main.ts', 'demo'],
];

describe('dependencies', () => {
  it('are found by this test', () => {
    expect(files.length).toBeGreaterThan(60);
    const found = [
      { from: 'cli/serve.ts', to: 'cluster/primary.ts', isPackage: false, isTypeOnly: false },
      { from: 'redis/client.ts', to: 'ioredis', isPackage: true, isTypeOnly: false },
    ];
    for (const each of found) expect(imports).toContainEqual(expect.objectContaining(each));
    for (const { to, isPackage } of imports) if (!isPackage) expect(files).toContain(to);
  });

  it('point one way', () => {
    expect(files.filter((file) => !LAYERS.includes(partOf(file)))).toEqual([]);
    const layerOf = (file: string) => LAYERS.indexOf(partOf(file));
    expect(wrong(({ from, to, isPackage }) => !isPackage && layerOf(to) > layerOf(from))).toEqual([]);
  });

  it('form no circle', () => {
    // type imports count too: a circle of them confuses readers
    const circles: string[] = [];
    const done = new Set<string>();
    const walk = (file: string, path: string[]) => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' → '));
      if (done.has(file) || path.includes(file)) return;
      for (const { to } of imports.filter(({ from, isPackage }) => from === file && !isPackage))
        walk(to, [...path, file]);
      done.add(file);
    };
    for (const file of files) walk(file, []);
    expect(circles).toEqual([]);
  });

  it('on libraries of connections are in their own places alone, types excepted; those of uWebSockets.js too in http', () => {
    const homes: Record<string, string[]> = {
      'uWebSockets.js': ['http/server.ts'],
      ioredis: ['redis/'],
      postgres: ['postgres/'],
    };
    const isAtHome = ({ from, to }: Import) => homes[to]!.some((home) => from.startsWith(home));
    expect(wrong((each) => each.to in homes && !each.isTypeOnly && !isAtHome(each))).toEqual([]);
    expect(wrong(({ from, to }) => to === 'uWebSockets.js' && partOf(from) !== 'http')).toEqual([]);
  });

  it('on functions that open connections are in the composition roots alone', () => {
    const roots = ['cluster', 'cli', 'demo', 'main.ts'];
    for (const [file, name] of [
      ['postgres/connect.ts', /\bopenDatabase\b/],
      ['redis/client.ts', /\bRedis\b/],
      ['redis/cluster/client.ts', /\bRedisCluster\b/],
      ['postgres/client.ts', /\bPostgres\b/],
    ] as const) {
      const opening = imports.filter(({ to, names }) => to === file && name.test(names));
      expect(opening).not.toEqual([]);
      // a cluster is several servers
      const isWrong = ({ from, isTypeOnly }: Import) =>
        !isTypeOnly && !roots.includes(partOf(from)) && !from.startsWith('redis/cluster/');
      expect(opening.filter(isWrong)).toEqual([]);
    }
  });

  it('on packages are on those that production installs', () => {
    const { dependencies } = JSON.parse(readFileSync(join(ROOT, '../package.json'), 'utf8'));
    const runsInDevelopment = (file: string) => partOf(file) === 'demo' || file === 'wasm/build.ts';
    const isInstalled = (to: string) =>
      to.startsWith('node:') || /^(@[^/]+\/)?[^/]+/.exec(to)![0] in dependencies;
    expect(
      wrong(({ from, to, isPackage }) => isPackage && !isInstalled(to) && !runsInDevelopment(from)),
    ).toEqual([]);
  });
});

it('a constant of numbers has one value, in AssemblyScript too', () => {
  const constant = /^(?:export )?const ([A-Z]\w*)(?:: \w+)? = (-?\d\w*);$/gm;
  const found = new Set<string>();
  for (const file of readdirSync(ROOT, { recursive: true }) as string[]) {
    if (!file.endsWith('.ts') || /\.(test|fixture)\.ts$/.test(file)) continue;
    for (const [, name, value] of readFileSync(join(ROOT, file), 'utf8').matchAll(constant))
      found.add(`${name} ${Number(value!.replaceAll('_', ''))}`);
  }
  const names = [...found].map((each) => each.split(' ')[0]);
  expect(names.length).toBeGreaterThan(200);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});

it('time and chance are known from lib/clock.ts alone', () => {
  // commands for people know the real time, as in biome.json
  const excepted = ['cli', 'demo', 'lib/clock.ts', 'postgres/migrate.ts'];
  // members of globals, which the linter cannot restrict
  const ownTime = /\bDate\.now\(|\bnew Date\(\)|\bMath\.random\(|\bprocess\.(hrtime|uptime)\b/;
  const others = files.filter((file) => !excepted.includes(partOf(file)) && !excepted.includes(file));
  expect(others.length).toBeGreaterThan(100);
  expect(others.filter((file) => ownTime.test(readFileSync(join(ROOT, file), 'utf8')))).toEqual([]);
});
