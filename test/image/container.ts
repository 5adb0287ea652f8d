import { execFile } from 'node:child_process';
import { lstat, mkdir, readlink, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** A root file system of our own over the machine's /usr and /etc: what a base image would bring. */
export interface Root {
  folder: string;
  /** what stands at /usr/local */
  local: string;
}

export interface Run {
  command: [file: string, ...args: string[]];
  env: Record<string, string>;
  workdir: string;
  /** uid:gid with all capabilities dropped; root where missing */
  user?: string;
  /** true: nothing in it can be written */
  readOnly?: boolean;
  /** folders of the machine that it sees, and may write, at other places */
  binds?: Record<string, string>;
}

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** Top-level folders that are links into /usr on the machine, or folders of their own on older ones. */
const USR_FOLDERS = ['bin', 'sbin', 'lib', 'lib64'];
const OWN_FOLDERS = ['usr', 'etc', 'proc', 'dev', 'tmp', 'opt', 'root'];

/** Makes the folders of an empty root. */
export async function makeRoot(root: Root): Promise<void> {
  for (const name of OWN_FOLDERS) await mkdir(join(root.folder, name), { recursive: true });
  await mkdir(join(root.local, 'bin'), { recursive: true });
  for (const name of USR_FOLDERS) {
    const isLink = (await lstat(`/${name}`).catch(() => undefined))?.isSymbolicLink();
    if (isLink) await symlink(await readlink(`/${name}`), join(root.folder, name));
    else await mkdir(join(root.folder, name), { recursive: true });
  }
}

/**
 * The command that runs another in `root` alone: in a mount namespace of its own, as that user, without a way to
 * gain rights. Every step replaces the process, so signals that are sent to it reach the command.
 */
export async function commandIn(root: Root, run: Run): Promise<[file: string, ...args: string[]]> {
  const lines = ['set -e', `mount --bind ${root.folder} ${root.folder}`];
  const mount = (from: string, to: string, readOnly: boolean) => {
    lines.push(`mount --rbind ${from} ${root.folder}${to}`);
    if (readOnly) lines.push(`mount -o remount,bind,ro ${root.folder}${to}`);
  };
  for (const name of USR_FOLDERS) {
    const isLink = (await lstat(join(root.folder, name))).isSymbolicLink();
    if (!isLink && (await lstat(`/${name}`).catch(() => undefined))) mount(`/${name}`, `/${name}`, true);
  }
  mount('/usr', '/usr', true);
  mount('/etc', '/etc', true);
  mount(root.local, '/usr/local', run.readOnly === true);
  mount('/proc', '/proc', false);
  mount('/dev', '/dev', false);
  for (const [from, to] of Object.entries(run.binds ?? {})) mount(from, to, false);
  if (run.readOnly) lines.push(`mount -o remount,bind,ro ${root.folder}`);

  const [uid, gid] = (run.user ?? '').split(':');
  const drop = run.user
    ? [
        'setpriv',
        `--reuid=${uid}`,
        `--regid=${gid}`,
        '--clear-groups',
        '--no-new-privs',
        '--inh-caps=-all',
        '--bounding-set=-all',
      ]
    : [];
  // the environment of the machine is not that of the image
  lines.push(`exec chroot ${root.folder} /bin/sh -c 'cd "$0" && exec "$@"' "$@"`);
  return [
    'unshare',
    '--mount',
    '--propagation=private',
    'sh',
    '-c',
    lines.join('\n'),
    'sh',
    run.workdir,
    ...drop,
    ...run.command,
  ];
}

/** Runs a command in `root` to its end. Rejects with what it printed when it fails. */
export async function runIn(root: Root, run: Run): Promise<string> {
  const [file, ...args] = await commandIn(root, run);
  const { stdout } = await promisify(execFile)(file, args, {
    env: { PATH, ...run.env },
    maxBuffer: 64 * 1024 ** 2,
  }).catch((error: Error & { stdout?: string; stderr?: string }) => {
    throw new Error(`${run.command.join(' ')}: ${error.stderr || error.message}\n${error.stdout ?? ''}`);
  });
  return stdout;
}
