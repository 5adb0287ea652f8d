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

const files = (readdirSync(ROOT, { recursive: true }) as string[])
  .filter((file) => file.endsWith('.ts') && !/\.(test|fixture|d)\.ts$/.test(file))
  // AssemblyScript has its own module system
  .filter((file) => !file.includes('/assembly/'))
  // examples for readers import nothing of src
  .filter((file) => !file.startsWith('api-docs/examples/'))
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
    expect(imports).toContainEqual(
      expect.objectContaining({
        from: 'cli/serve.ts',
        to: 'cluster/primary.ts',
        isPackage: false,
        isTypeOnly: false,
      }),
    );
    expect(imports).toContainEqual(
      expect.objectContaining({ from: 'redis/client.ts', to: 'ioredis', isPackage: true, isTypeOnly: false }),
    );
    for (const { to, isPackage } of imports) if (!isPackage) expect(files).toContain(to);
  });

  it('point one way', () => {
    expect(files.filter((file) => !LAYERS.includes(partOf(file)))).toEqual([]);
    expect(
      wrong(
        ({ from, to, isPackage }) => !isPackage && LAYERS.indexOf(partOf(to)) > LAYERS.indexOf(partOf(from)),
      ),
    ).toEqual([]);
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

  it('on uWebSockets.js are in http alone, and but for types in http/library.ts and the check of the library', () => {
    expect(wrong(({ from, to }) => to === 'uWebSockets.js' && partOf(from) !== 'http')).toEqual([]);
    const modules = ['http/check-library.ts', 'http/library.ts'];
    expect(
      wrong(({ from, to, isTypeOnly }) => to === 'uWebSockets.js' && !isTypeOnly && !modules.includes(from)),
    ).toEqual([]);
  });

  it('on the client libraries of Redis and PostgreSQL are in redis/ and postgres/ alone, types excepted', () => {
    expect(
      wrong(
        ({ from, to, isTypeOnly }) =>
          ((to === 'ioredis' && partOf(from) !== 'redis') ||
            (to === 'postgres' && partOf(from) !== 'postgres')) &&
          !isTypeOnly,
      ),
    ).toEqual([]);
  });

  it('on functions that open connections are in the composition roots alone', () => {
    const opens = [
      ['postgres/connect.ts', /\bopenDatabase\b/],
      ['redis/client.ts', /\bRedis\b/],
      ['redis/cluster/client.ts', /\bRedisCluster\b/],
      ['postgres/client.ts', /\bPostgres\b/],
    ] as const;
    const roots = ['cluster', 'cli', 'demo', 'main.ts'];
    for (const [file, name] of opens) {
      expect(imports.some(({ to, names }) => to === file && name.test(names))).toBe(true);
      expect(
        wrong(
          ({ from, to, names, isTypeOnly }) =>
            to === file &&
            name.test(names) &&
            !isTypeOnly &&
            !roots.includes(partOf(from)) &&
            // a cluster is several servers
            !(file === 'redis/client.ts' && from.startsWith('redis/cluster/')),
        ),
      ).toEqual([]);
    }
  });

  it('on main.ts do not exist', () => {
    expect(wrong(({ to }) => to === 'main.ts')).toEqual([]);
  });

  it('on packages are on those that production installs', () => {
    const { dependencies } = JSON.parse(readFileSync(join(ROOT, '../package.json'), 'utf8'));
    const runsInDevelopment = (file: string) => partOf(file) === 'demo' || file === 'wasm/build.ts';
    const nameOf = (specifier: string) =>
      specifier
        .split('/')
        .slice(0, specifier.startsWith('@') ? 2 : 1)
        .join('/');
    expect(
      wrong(
        ({ from, to, isPackage }) =>
          isPackage && !to.startsWith('node:') && !runsInDevelopment(from) && !(nameOf(to) in dependencies),
      ),
    ).toEqual([]);
  });
});

describe('time and chance', () => {
  /** Folders of what the simulation runs; biome.json restricts globals and imports in the same ones. */
  const folders = 'auth cache changes cluster collections hotels http lib log postgres rate-limit redis';
  /** Members of globals, which the linter cannot restrict. */
  const ownTime = /\bDate\.now\(|\bnew Date\(\)|\bMath\.random\(|\bprocess\.(hrtime|uptime)\b/;

  it('are known from lib/clock.ts alone', () => {
    const simulated = files.filter(
      (file) =>
        folders.split(' ').includes(partOf(file)) && !['lib/clock.ts', 'postgres/migrate.ts'].includes(file),
    );
    expect(simulated.length).toBeGreaterThan(100);
    expect(simulated.filter((file) => ownTime.test(readFileSync(join(ROOT, file), 'utf8')))).toEqual([]);
  });
});
