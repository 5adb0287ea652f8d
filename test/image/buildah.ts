import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeAtEnd } from '../support/cleanup.ts';
import { run } from '../support/run.ts';

const TIMEOUT_MS = 420_000;

/** Run configuration of an image, with the names of Docker's format. */
export interface ImageConfig {
  User: string;
  WorkingDir: string;
  Env: string[];
  Entrypoint: string[];
  Cmd: string[];
  Labels: Record<string, string>;
  Healthcheck: { Test: string[] };
  StopSignal: string;
  ExposedPorts: Record<string, unknown>;
}

interface BuildOptions {
  context: string;
  args: Record<string, string>;
}

/** Builds images without a container engine, in a separate storage that is removed at the end of the file. */
export class Buildah {
  readonly #folder: string;
  readonly #ending = new AbortController();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async open(): Promise<Buildah> {
    const buildah = new Buildah(await mkdtemp(join(tmpdir(), 'hotel-api-image-')));
    closeAtEnd('the storage of images', () => buildah.#release());
    await mkdir(join(buildah.#folder, 'npm'));
    await buildah.#writeNpmConfiguration();
    return buildah;
  }

  /** Runs a command of buildah. Rejects with its output if it fails. */
  run(...args: string[]): Promise<string> {
    const storage = ['--root', join(this.#folder, 'storage'), '--runroot', join(this.#folder, 'run')];
    return run('buildah', [...storage, '--storage-driver', 'vfs', ...args], {
      env: { ...process.env, TMPDIR: this.#folder },
      timeout: TIMEOUT_MS,
      signal: this.#ending.signal,
    });
  }

  /** Builds the Dockerfile of a folder and returns the image's id. Its base must be in the storage. */
  async build({ context, args }: BuildOptions): Promise<string> {
    const cache = await run('npm', ['config', 'get', 'cache']);
    const idFile = join(this.#folder, 'id');
    await this.run(
      'build',
      ...['--isolation', 'chroot', '--pull-never', '--format', 'docker', '--iidfile', idFile],
      // npm uses its registry as on this machine; the folders exist in the base, and stay empty in the image
      ...['-v', `${join(this.#folder, 'npm')}:/usr/local/etc:ro`, '-v', `${cache.trim()}:/mnt`],
      ...Object.entries(args).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]),
      context,
    );
    return (await readFile(idFile, 'utf8')).trim();
  }

  /** Returns the image's configuration, and the folder of its root file system. */
  async unpack(image: string): Promise<{ config: ImageConfig; root: string }> {
    const { Docker } = JSON.parse(await this.run('inspect', '--type', 'image', image));
    const container = (await this.run('from', '--pull-never', image)).trim();
    return { config: Docker.config, root: (await this.run('mount', container)).trim() };
  }

  async #writeNpmConfiguration(): Promise<void> {
    const get = async (name: string) => (await run('npm', ['config', 'get', name])).trim();
    const read = async (name: string) => readFile(await get(name), 'utf8').catch(() => '');
    const lines = [await read('globalconfig'), await read('userconfig'), 'cache=/mnt'];
    const cafile = process.env.NODE_EXTRA_CA_CERTS ?? (await get('cafile'));
    if (cafile && cafile !== 'null') {
      await writeFile(join(this.#folder, 'npm/ca.crt'), await readFile(cafile));
      lines.push('cafile=/usr/local/etc/ca.crt');
    }
    await writeFile(join(this.#folder, 'npm/npmrc'), `${lines.join('\n')}\n`);
  }

  async #release(): Promise<void> {
    this.#ending.abort();
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
