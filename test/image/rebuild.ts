import { chmod, copyFile, cp, mkdir, mkdtemp, readFile, realpath, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { homedir, tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { findProgram } from '../../src/servers/programs.ts';
import { makeRoot, type Root, runIn } from './container.ts';
import { readStages, type Stage, type Step } from './dockerfile.ts';

// its types promise a default export that there is none of
const dockerignore: () => { add(lines: string): { ignores(path: string): boolean } } = createRequire(
  import.meta.url,
)('@balena/dockerignore');

/** A rebuilt image: its file system and what it says about how it is run. */
export interface Image {
  root: Root;
  env: Record<string, string>;
  workdir: string;
  user: string;
  labels: Record<string, string>;
  entrypoint: string[];
  command: string[];
  healthcheck: string[];
}

/** What npm needs of the machine to reach its registry; nothing of it stays in the image. */
const PASSED_ON = /^(https?_proxy|no_proxy|npm_config_(registry|cafile)|node_extra_ca_certs|ssl_cert_file)$/i;

/**
 * Follows a Dockerfile's instructions without a container engine: COPY copies what .dockerignore lets through, RUN
 * runs in a root of its own over the machine's Debian, the base image's Node and npm are those of the machine. An
 * instruction that is not known here is an error. `release` removes all of it.
 */
export async function rebuild(
  context: string,
  buildArgs: Record<string, string>,
): Promise<{ image: Image; release: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'hotel-api-image-'));
  const release = () => rm(folder, { recursive: true, force: true });
  try {
    const built = new Map<string, Image>();
    let image: Image | undefined;
    for (const [i, stage] of readStages(
      await readFile(join(context, 'Dockerfile'), 'utf8'),
      buildArgs,
    ).entries()) {
      image = await new StageBuild(context, built, join(folder, String(i))).build(stage);
      built.set(stage.name ?? String(i), image);
    }
    return { image: image!, release };
  } catch (error) {
    await release();
    throw error;
  }
}

class StageBuild {
  readonly #context: string;
  readonly #built: Map<string, Image>;
  readonly #image: Image;
  readonly #args: Record<string, string> = {};

  constructor(context: string, built: Map<string, Image>, folder: string) {
    this.#context = context;
    this.#built = built;
    this.#image = {
      root: { folder: join(folder, 'root'), local: join(folder, 'local') },
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
      workdir: '/',
      user: '0:0',
      labels: {},
      entrypoint: [],
      command: [],
      healthcheck: [],
    };
  }

  async build({ steps }: Stage): Promise<Image> {
    await fillBase(this.#image.root);
    for (const step of steps) await this.#follow(step);
    return this.#image;
  }

  async #follow(step: Step): Promise<void> {
    const image = this.#image;
    switch (step.keyword) {
      case 'ARG':
        Object.assign(this.#args, step.properties);
        return;
      case 'ENV':
        Object.assign(image.env, step.properties);
        return;
      case 'LABEL':
        Object.assign(image.labels, step.properties);
        return;
      case 'WORKDIR':
        image.workdir = step.text;
        await mkdir(this.#place(step.text), { recursive: true });
        return;
      case 'USER':
        image.user = step.text;
        return;
      case 'ENTRYPOINT':
        image.entrypoint = inExecForm(step);
        return;
      case 'CMD':
        image.command = inExecForm(step);
        return;
      case 'HEALTHCHECK':
        image.healthcheck = inExecForm(step);
        return;
      case 'EXPOSE':
      case 'STOPSIGNAL':
        return;
      case 'COPY':
        return this.#copy(step);
      case 'RUN':
        return this.#run(step);
      default:
        throw new Error(`${step.keyword} is an instruction that the rebuild does not know`);
    }
  }

  async #run({ text, exec }: Step): Promise<void> {
    const { root, env, workdir } = this.#image;
    const passedOn = Object.entries(process.env).filter(([name]) => PASSED_ON.test(name));
    await runIn(root, {
      command: (exec as [string]) ?? ['/bin/sh', '-c', text],
      env: { HOME: '/root', ...Object.fromEntries(passedOn as [string, string][]), ...env, ...this.#args },
      workdir,
      // npm's configuration and downloads are those of the machine, so that nothing comes twice
      binds: { [homedir()]: '/root' },
    });
  }

  async #copy({ text, flags }: Step): Promise<void> {
    const from = flags.from === undefined ? undefined : this.#built.get(flags.from);
    if (flags.from !== undefined && !from)
      throw new Error(`COPY --from=${flags.from}: there is no such stage`);
    const words = text.split(/\s+/);
    const target = words.pop()!;
    const ignored = await readIgnored(this.#context);
    for (const source of words) {
      const origin = from ? join(from.root.folder, source) : join(this.#context, source);
      if (!from && ignored(source)) throw new Error(`COPY ${source}: .dockerignore keeps it out`);
      // into a folder, or to the name itself
      const place = this.#place(target.endsWith('/') ? join(target, source.split('/').at(-1)!) : target);
      await cp(origin, place, {
        recursive: true,
        verbatimSymlinks: true,
        filter: (path) => from !== undefined || !ignored(relative(this.#context, path)),
      });
    }
  }

  #place(path: string): string {
    return join(this.#image.root.folder, path.startsWith('/') ? path : join(this.#image.workdir, path));
  }
}

/** True of paths of the build context that .dockerignore keeps out. */
async function readIgnored(context: string): Promise<(path: string) => boolean> {
  const filter = dockerignore().add(await readFile(join(context, '.dockerignore'), 'utf8'));
  return (path) => filter.ignores(path);
}

function inExecForm({ keyword, exec }: Step): string[] {
  if (!exec)
    throw new Error(`${keyword} is not in exec form: a shell would stand between the signals and us`);
  return exec;
}

/** Node and npm as the base image has them. */
async function fillBase(root: Root): Promise<void> {
  await makeRoot(root);
  await chmod(root.folder, 0o755);
  await copyFile(process.execPath, join(root.local, 'bin/node'));
  const npm = await findProgram(['npm']);
  if (!npm) throw new Error('npm is not on the PATH');
  const home = dirname(dirname(await realpath(npm)));
  await cp(home, join(root.local, 'lib/node_modules/npm'), { recursive: true, verbatimSymlinks: true });
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(root.local, 'bin/npm'));
}
