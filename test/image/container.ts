import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

export interface Run {
  command: [file: string, ...args: string[]];
  env: Record<string, string>;
  workdir: string;
  /** uid:gid; all capabilities are dropped */
  user: string;
  /** true: nothing in it can be written */
  readOnly: boolean;
}

const DEVICES = ['null', 'zero', 'random', 'urandom'];

/**
 * The command that runs another in the root file system `root` alone: in a mount namespace of its own, as that user,
 * without a way to gain rights. Every step replaces the process, so signals that are sent to it reach the command.
 */
export function commandIn(root: string, run: Run): [file: string, ...args: string[]] {
  const [uid, gid] = run.user.split(':');
  const lines = [
    'set -e',
    `mount --bind ${root} ${root}`,
    `mount --rbind /proc ${root}/proc`,
    ...DEVICES.map((name) => `mount --bind /dev/${name} ${root}/dev/${name}`),
    ...(run.readOnly ? [`mount -o remount,bind,ro ${root}`] : []),
    // the environment of the machine is not that of the image
    `exec chroot ${root} /bin/sh -c 'cd "$0" && exec "$@"' "$@"`,
  ];
  const drop = ['--clear-groups', '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all'];
  return [
    ...(['unshare', '--mount', '--propagation=private', 'sh', '-c', lines.join('\n'), 'sh'] as const),
    ...[run.workdir, 'setpriv', `--reuid=${uid}`, `--regid=${gid}`, ...drop],
    ...run.command,
  ];
}

/** Runs a command in `root` to its end. Rejects with what it printed when it fails. */
export async function runIn(root: string, run: Run): Promise<string> {
  const [file, ...args] = commandIn(root, run);
  const { stdout } = await promisify(execFile)(file, args, { env: run.env }).catch(
    (error: Error & { stdout?: string; stderr?: string }) => {
      throw new Error(`${run.command.join(' ')}: ${error.stderr || error.message}\n${error.stdout ?? ''}`);
    },
  );
  return stdout;
}
