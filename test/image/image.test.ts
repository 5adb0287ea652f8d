import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { ROOT, read } from '../documents/files.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { needs } from '../support/needs.ts';
import { childrenOf } from '../support/processes.ts';
import { run } from '../support/run.ts';
import { startService } from '../support/service.ts';
import { commitBase } from './base.ts';
import { Buildah, type ImageConfig } from './buildah.ts';
import { commandIn, type Run, runIn } from './container.ts';

await needs('redis', 'root', 'buildah', 'debootstrap', 'unshare');

/** The first build also creates the Debian base, which takes most of the time. */
const BUILD_TIMEOUT_MS = 600_000;
const SUITES_TIMEOUT_MS = 1_200_000;
/** Licences of the components, which allow redistribution in the image. */
const LICENCES = ['Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT', 'Unlicense'];

const dockerfile = read('Dockerfile');
const manifest: {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
} = JSON.parse(read('package.json'));
const defaultOf = (argument: string) =>
  new RegExp(`^ARG ${argument}=([^@\\s]\\S*)$`, 'm').exec(dockerfile)![1]!;
/** Tag of the base image, without a digest. */
const tag = defaultOf('NODE').split('@')[0]!;
const [nodeVersion] = tag.split('-') as [string];
/** Package that takes the place of uWebSockets.js of the lock file. */
const library = /^npm:(.*)@(.*)$/.exec(defaultOf('UWS'))!;

/** Entry of a lock file; it has a name if that differs from its place. */
interface Entry {
  name?: string;
  version: string;
  integrity: string;
}

let buildah: Buildah;
let config: ImageConfig;
let root: string;
let env: Record<string, string>;

/** Returns the image's run configuration with a read-only root file system, as in the cluster. */
const asRun = (argv: string[], more: Record<string, string> = {}): Run => ({
  command: argv as Run['command'],
  env: { ...env, ...more },
  workdir: config.WorkingDir,
  user: config.User,
  readOnly: true,
});
/** Returns the command that runs the service as the image does. */
const serving = () => commandIn(root, asRun([...config.Entrypoint, ...config.Cmd]));
/** Evaluates an expression in the image's Node; a promise is awaited. */
const inNode = async (expression: string) =>
  (
    await runIn(root, asRun(['node', '--input-type=module', '--eval', `console.log(await ${expression})`]))
  ).trim();
const namesIn = (folder: string) => readdir(join(root, folder));
const filesIn = async (folder: string) =>
  (await readdir(join(root, folder), { recursive: true, withFileTypes: true })).filter((entry) =>
    entry.isFile(),
  );

beforeAll(async () => {
  buildah = await Buildah.open();
  await commitBase(buildah, `docker.io/library/node:${tag}`, nodeVersion);
  // the substitute base has no digest
  ({ config, root } = await buildah.unpack(await buildah.build({ context: ROOT, args: { NODE: tag } })));
  env = Object.fromEntries(config.Env.map((line) => line.split(/=(.*)/s) as [string, string]));
}, BUILD_TIMEOUT_MS);

it('the Dockerfile builds on Node 24 and Debian 13, in every stage', () => {
  expect(tag).toMatch(/^24\.\d+\.\d+-trixie-slim$/);
  const stages = dockerfile.match(/^FROM .*/gm)!;
  expect(stages).toHaveLength(2);
  for (const inProcess of stages) expect(inProcess).toMatch(/^FROM node:\$\{NODE\}( AS \w+)?$/);
});

describe('the image', () => {
  it('runs as a user with a fixed number, and checks its health by hotel-api health', () => {
    expect(config.User).toMatch(/^[1-9]\d{3,}:[1-9]\d{3,}$/);
    expect(config.Healthcheck.Test).toEqual(['CMD', 'hotel-api', 'health']);
    expect([...config.Entrypoint, ...config.Cmd]).toEqual(['hotel-api', 'serve']);
    expect(config.StopSignal).toBe('SIGTERM');
    expect(Object.keys(config.ExposedPorts).sort()).toEqual(['8080/tcp', '9090/tcp']);
  });

  it('contains exactly the packages of the lock file but uWebSockets.js, each in its SBOM with hash and licence', async () => {
    const lock: Record<string, Entry> = JSON.parse(
      await readFile(join(root, 'app/node_modules/.package-lock.json'), 'utf8'),
    ).packages;
    const tested = JSON.parse(read('package-lock.json')).packages;
    const [, name, version] = library;
    tested['node_modules/uWebSockets.js'] = { name, version, integrity: defaultOf('UWS_INTEGRITY') };
    const pick = ({ name, version, integrity }: Entry) => ({ name, version, integrity });
    for (const [place, entry] of Object.entries(lock))
      expect(pick(entry), place).toEqual(pick(tested[place]));
    const names = Object.keys(lock).map((place) => place.split('node_modules/').at(-1)!);
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter((name) => name in manifest.devDependencies)).toEqual([]);

    const sbom = JSON.parse(await readFile(join(root, 'app/sbom.cdx.json'), 'utf8'));
    const components: {
      name: string;
      purl: string;
      hashes: { alg: string; content: string }[];
      licenses: { license: { id: string } }[];
    }[] = sbom.components;
    expect(components.map(({ name }) => name).sort()).toEqual([...names].sort());
    for (const { name, hashes, licenses } of components) {
      const integrity = `sha512-${Buffer.from(hashes[0]!.content, 'hex').toString('base64')}`;
      const locked = Object.values(lock).map((entry) => entry.integrity);
      expect(locked, name).toContain(integrity);
      expect(LICENCES, name).toContain(licenses[0]!.license.id);
    }
    // installed under an alias, listed under its own name
    expect(components.find(({ name }) => name === 'uWebSockets.js')!.purl).toBe(
      `pkg:npm/${name!.replace('@', '%40')}@${version}`,
    );
  });

  it('contains only the binary for this platform', async () => {
    const names = (await filesIn('app/node_modules')).map(({ name }) => name);
    expect(names.filter((name) => name.endsWith('.node'))).toEqual([
      `uws_${process.platform}_${process.arch}_${await inNode('process.versions.modules')}.node`,
    ]);
  });

  it('has the Node of its tag', async () => {
    expect(await inNode('process.version')).toBe(`v${nodeVersion}`);
  });

  it('contains no tests, no demo, no package manager, and no traces of the build machine', async () => {
    const names = (await filesIn('app/src')).map(({ name }) => name);
    expect(names).toContain('main.ts');
    expect(names.filter((name) => /\.(test|fixture)\.ts$/.test(name))).toEqual([]);
    for (const folder of ['demo', 'servers']) expect(await namesIn('app/src')).not.toContain(folder);
    expect(await namesIn('usr/local/bin')).toEqual(['hotel-api', 'node']);
    expect(await namesIn('usr/local/lib')).not.toContain('node_modules');
    for (const folder of ['usr/local/etc', 'mnt', 'tmp']) expect(await namesIn(folder), folder).toEqual([]);
  });

  it('cannot write its own files', async () => {
    for (const place of ['/app/x', '/tmp/x', '/usr/local/bin/x']) {
      await expect(runIn(root, asRun(['touch', place]))).rejects.toThrow('Read-only file system');
    }
    // on a writable file system, the files belong to another user
    await expect(runIn(root, { ...asRun(['touch', '/app/src/main.ts']), readOnly: false })).rejects.toThrow(
      'Permission denied',
    );
  });

  it('starts a worker from what was compiled when it was built, with a read-only root', async () => {
    const worker = asRun(['node', 'src/cluster/worker.ts'], { NODE_DEBUG_NATIVE: 'COMPILE_CACHE' });
    const [file, ...args] = commandIn(root, worker);
    // a file, because Node loses what a full pipe does not take
    const printed = join(await temporaryFolder('hotel-api-compiled-'), 'printed');
    const output = await open(printed, 'w');
    const child = spawn(file, args, { env: worker.env, stdio: ['ignore', output.fd, output.fd] });
    expect(await once(child, 'close')).toEqual([0, null]);
    await output.close();
    const lines = (await readFile(printed, 'utf8')).split('\n');
    const sources = lines.filter(
      (line) => line.includes('reading cache') && line.includes('file:///app/src/'),
    );
    expect(sources.length).toBeGreaterThan(200);
    expect(sources.filter((line) => !line.includes('... success'))).toEqual([]);
    expect(lines.filter((line) => line.includes('was accepted')).length).toBeGreaterThan(200);
    expect(lines.filter((line) => line.includes('was rejected'))).toEqual([]);
  });

  it('serves as its user and as process 1 with a read-only root: GET, batch, health, and a clean exit', async () => {
    const service = await startService({
      command: ['unshare', '--pid', '--fork', '--kill-child', ...serving()],
      // the image has its own uWebSockets.js
      env: { ...env, NODE_OPTIONS: '' },
      workers: 2,
      hotels: [{ id: 'h1', name: 'One', channel_id: 'c1' }],
    });
    const [first] = (await childrenOf(service.pid)) as [number];
    const statusOf = (pid: number) => readFile(`/proc/${pid}/status`, 'utf8');
    expect(await statusOf(first)).toMatch(/^NSpid:.*\s1$/m);
    const [uid] = config.User.split(':');
    for (const pid of [first, ...(await childrenOf(first))])
      expect(await statusOf(pid)).toMatch(new RegExp(`^Uid:(\\s${uid}){4}$`, 'm'));
    expect((await service.get('/hotels/h1')).json()).toMatchObject({ id: 'h1', name: 'One' });
    expect((await service.post('/hotels/channel/batch', { channel_ids: ['c1'] })).json()).toMatchObject([
      { id: 'h1' },
    ]);
    for (const path of ['/openapi.json', '/docs'])
      expect((await service.get(path, { key: 'none' })).status, path).toBe(200);
    const health = asRun(config.Healthcheck.Test.slice(1), { ADMIN_PORT: String(service.adminPort) });
    expect(await runIn(root, health)).toMatch(/^status +200$/m);
    process.kill(first, 'SIGTERM');
    expect(await service.exited).toMatchObject({ code: 0 });
    await expect(runIn(root, health)).rejects.toThrow('Is the service running');
  });

  // the end of the step that installs it, with what that step installed
  it('is not built if uWebSockets.js has another hash', async () => {
    const right = defaultOf('UWS_INTEGRITY');
    const wrong = right.replace(/.{4}$/, 'AA==');
    const [, script] = /&& (installed="\$\(.*?^ +fi)$/ms.exec(dockerfile)!;
    const check = (hash: string) => runIn(root, asRun(['sh', '-c', script!], { UWS_INTEGRITY: hash }));
    await expect(check(wrong)).rejects.toThrow(`uWebSockets.js has the hash ${right}, not ${wrong}`);
    for (const accepted of [right, '']) expect(await check(accepted)).toBe('');
  });

  it(
    'answers as the contract says, also hostile clients and ambiguous requests',
    async () => {
      // variables of the vitest that runs this test would reach the other one
      const own = Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_ENV|MODE|TEST$)/.test(name));
      const image = { TEST_IMAGE: JSON.stringify({ command: serving(), env }), NO_COLOR: '1' };
      const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--config', 'vitest.system.config.ts'];
      const environment = { ...Object.fromEntries(own), ...image };
      const printed = await run(process.execPath, vitest, { cwd: ROOT, env: environment });
      // fewer show that the suites were not found
      expect(Number(/Tests +(\d+) passed/.exec(printed)?.[1])).toBeGreaterThan(190);
    },
    SUITES_TIMEOUT_MS,
  );
});
