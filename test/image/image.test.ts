import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { childrenOf } from '../../src/servers/processes.ts';
import { freshDatabase } from '../support/database.ts';
import { closeAtEnd } from '../support/left-behind.ts';
import { needs } from '../support/needs.ts';
import { ownPort } from '../support/own-port.ts';
import { startService } from '../support/service.ts';
import { commandIn, type Run, runIn } from './container.ts';
import { readStages, type Stage } from './dockerfile.ts';
import { type Image, rebuild } from './rebuild.ts';

await needs('redis');

const CONTEXT = fileURLToPath(new URL('../..', import.meta.url));
const REBUILD_TIMEOUT_MS = 240_000;

let stages: Stage[];
let manifest: {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
};
let image: Image;
/** What the image says of how it is run, and what the cluster adds: a root file system that cannot be written. */
let asRun: (argv: string[], env?: Record<string, string>) => Run;

beforeAll(async () => {
  stages = readStages(await readFile(join(CONTEXT, 'Dockerfile'), 'utf8'));
  manifest = JSON.parse(await readFile(join(CONTEXT, 'package.json'), 'utf8'));
  const rebuilt = await rebuild(CONTEXT, { UWS: manifest.dependencies['uWebSockets.js']! });
  image = rebuilt.image;
  closeAtEnd('the rebuilt image', rebuilt.release);
  asRun = (argv, env = {}) => ({
    command: argv as Run['command'],
    env: { ...image.env, ...env },
    workdir: image.workdir,
    user: image.user,
    readOnly: true,
  });
}, REBUILD_TIMEOUT_MS);

const namesIn = (folder: string) => readdir(join(image.root.folder, folder));
const filesIn = async (folder: string) =>
  (await readdir(join(image.root.folder, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);
const properties = (stage: Stage, keyword: string) =>
  Object.assign({}, ...stage.steps.filter((step) => step.keyword === keyword).map((step) => step.properties));

describe('the Dockerfile', () => {
  it('builds on the Node of .node-version and Debian 13, in every stage', async () => {
    const version = (await readFile(join(CONTEXT, '.node-version'), 'utf8')).trim();
    expect(stages.map(({ base }) => base)).toEqual(Array(2).fill(`node:${version}-trixie-slim`));
    expect(properties(stages[1]!, 'LABEL')['org.opencontainers.image.base.name']).toContain(stages[1]!.base);
  });

  it('takes the official uWebSockets.js at a pinned tag, unless a build argument says otherwise', () => {
    expect(properties(stages[0]!, 'ARG').UWS).toMatch(
      /^https:\/\/codeload\.github\.com\/uNetworking\/uWebSockets\.js\/tar\.gz\/refs\/tags\/v\d+\.\d+\.\d+$/,
    );
  });

  it('carries the labels of the image specification', () => {
    expect(image.labels).toMatchObject({
      'org.opencontainers.image.title': 'hotel-api',
      'org.opencontainers.image.version': manifest.version,
      'org.opencontainers.image.licenses': 'MIT',
      'org.opencontainers.image.revision': expect.any(String),
      'org.opencontainers.image.description': expect.any(String),
    });
  });

  it('runs as a user of a fixed number, and checks its health by hotel-api health', () => {
    expect(image.user).toMatch(/^[1-9]\d{3,}:[1-9]\d{3,}$/);
    expect(image.healthcheck).toEqual(['hotel-api', 'health']);
    expect([...image.entrypoint, ...image.command]).toEqual(['hotel-api', 'serve']);
  });
});

describe('the image', () => {
  it('holds production dependencies only, and names each in its SBOM', async () => {
    const installed = (
      await readFile(join(image.root.folder, 'app/node_modules/.package-lock.json'), 'utf8')
    ).matchAll(/^ {4}"node_modules\/([^"]+)"/gm);
    const packages = new Set([...installed].map(([, path]) => path!.split('node_modules/').at(-1)!));
    const sbom = JSON.parse(await readFile(join(image.root.folder, 'app/sbom.cdx.json'), 'utf8'));
    const components: { name: string; purl: string }[] = sbom.components;
    expect(packages.size).toBeGreaterThan(20);
    expect(new Set(components.map(({ name }) => name))).toEqual(packages);
    // installed under another name, but known by its own
    expect(components.find(({ name }) => name === 'uWebSockets.js')!.purl).toMatch(/^pkg:npm\/uws-pack@/);
    expect(Object.keys(manifest.devDependencies).filter((name) => packages.has(name))).toEqual([]);
  });

  it('holds the one binary that this platform loads', async () => {
    expect((await filesIn('app/node_modules')).filter((name) => name.endsWith('.node'))).toEqual([
      `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`,
    ]);
  });

  it('holds every package that its sources import', async () => {
    const sources = (await readdir(join(image.root.folder, 'app/src'), { recursive: true })).filter((name) =>
      name.endsWith('.ts'),
    );
    const installed = await namesIn('app/node_modules');
    for (const source of sources) {
      const text = await readFile(join(image.root.folder, 'app/src', source), 'utf8');
      for (const [, taken = '', name] of text.matchAll(
        /^(?:import|export)\s(?:([^'";]*?)\sfrom\s)?'([^'.][^']*)'/gm,
      )) {
        if (taken.startsWith('type ') || name!.startsWith('node:')) continue;
        expect(installed, `${source} imports ${name}`).toContain(name!.split('/')[0]);
      }
    }
  });

  it('holds no tests, no demo, no package manager', async () => {
    const files = await filesIn('app/src');
    expect(files).toContain('main.ts');
    expect(files.filter((name) => /\.(test|fixture)\.ts$/.test(name))).toEqual([]);
    for (const folder of ['demo', 'servers']) expect(await namesIn('app/src')).not.toContain(folder);
    expect(await readdir(join(image.root.local, 'bin'))).toEqual(['hotel-api', 'node']);
    await expect(access(join(image.root.local, 'lib/node_modules'))).rejects.toThrow('ENOENT');
  });

  it('cannot write its own files', async () => {
    for (const place of ['/app/x', '/tmp/x', '/usr/local/bin/x']) {
      await expect(runIn(image.root, asRun(['touch', place]))).rejects.toThrow('Read-only file system');
    }
    // and where the file system may be written, they are not this user's
    await expect(
      runIn(image.root, { ...asRun(['touch', '/app/src/main.ts']), readOnly: false }),
    ).rejects.toThrow('Permission denied');
  });

  it('serves as its user with a read-only root: GET, batch, health, and an orderly end', async () => {
    const service = await startService({
      command: await commandIn(image.root, asRun([...image.entrypoint, ...image.command])),
      env: image.env,
      workers: 2,
      hotels: [{ id: 'h1', name: 'One', channel_id: 'c1' }],
    });
    const [uid] = image.user.split(':');
    for (const pid of [service.pid, ...(await service.workerPids())]) {
      expect(await readFile(`/proc/${pid}/status`, 'utf8')).toMatch(new RegExp(`^Uid:(\\s${uid}){4}$`, 'm'));
    }
    expect((await service.get('/hotels/h1')).json()).toMatchObject({ id: 'h1', name: 'One' });
    expect((await service.post('/hotels/channel/batch', { channel_ids: ['c1'] })).json()).toMatchObject([
      { id: 'h1' },
    ]);
    for (const path of ['/openapi.json', '/docs'])
      expect((await service.get(path, { key: 'none' })).status, path).toBe(200);
    const health = asRun(image.healthcheck, { ADMIN_PORT: String(service.adminPort) });
    expect(await runIn(image.root, health)).toBe('ok\n');
    expect(await service.stop()).toMatchObject({ code: 0 });
    await expect(runIn(image.root, health)).rejects.toThrow('Does the service run');
  });

  it('hears the signals as process 1', async () => {
    const { url } = await freshDatabase();
    const adminPort = await ownPort();
    const [file, ...args] = await commandIn(image.root, asRun([...image.entrypoint, ...image.command]));
    const env = {
      ...image.env,
      ...{ DATABASE_URL: url, HOST: '127.0.0.1', PORT: String(await ownPort()), WORKERS: '1' },
      ...{ ADMIN_HOST: '127.0.0.1', ADMIN_PORT: String(adminPort), DRAIN_WAIT_MS: '0' },
    };
    const parent = spawn('unshare', ['--pid', '--fork', '--kill-child', file, ...args], {
      env,
      stdio: 'ignore',
    });
    const exited = once(parent, 'exit');
    closeAtEnd('process 1', async () => void parent.kill('SIGKILL'));
    await expect
      .poll(
        () =>
          fetch(`http://127.0.0.1:${adminPort}/readyz`).then(
            ({ status }) => status,
            () => 0,
          ),
        { timeout: 60_000 },
      )
      .toBe(200);
    const [first] = await childrenOf(parent.pid!);
    const { stdout } = await promisify(execFile)('grep', ['NSpid', `/proc/${first}/status`]);
    expect(stdout.trim().split(/\s+/).at(-1)).toBe('1');
    process.kill(first!, 'SIGTERM');
    expect(await exited).toEqual([0, null]);
  });

  it('brings the operator’s commands: migrate', async () => {
    const { ownerUrl } = await freshDatabase();
    const migrate = asRun([...image.entrypoint, 'migrate', '--json'], { DATABASE_URL: ownerUrl });
    expect(JSON.parse(await runIn(image.root, migrate))).toMatchObject({ applied: [] });
  });
});
