import { run } from '../support/run.ts';

export interface Run {
  command: [file: string, ...args: string[]];
  env: Record<string, string>;
  workdir: string;
  /** uid:gid; all capabilities are dropped */
  user: string;
  /** true: the file system is read-only */
  readOnly: boolean;
}

const DEVICES = ['null', 'zero', 'random', 'urandom'];

/**
 * Returns the command that runs another in the root file system `root`: in its own mount namespace, as that user, without
 * ways to gain rights. Every step replaces the process, so signals reach the command.
 */
export function commandIn(root: string, run: Run): [file: string, ...args: string[]] {
  const [uid, gid] = run.user.split(':');
  const lines = [
    'set -e',
    `mount --bind ${root} ${root}`,
    `mount --rbind /proc ${root}/proc`,
    ...DEVICES.map((name) => `mount --bind /dev/${name} ${root}/dev/${name}`),
    ...(run.readOnly ? [`mount -o remount,bind,ro ${root}`] : []),
    // the machine's environment does not apply to the image
    `exec chroot ${root} /bin/sh -c 'cd "$0" && exec "$@"' "$@"`,
  ];
  const drop = ['--clear-groups', '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all'];
  return [
    ...(['unshare', '--mount', '--propagation=private', 'sh', '-c', lines.join('\n'), 'sh'] as const),
    ...[run.workdir, 'setpriv', `--reuid=${uid}`, `--regid=${gid}`, ...drop],
    ...run.command,
  ];
}

/** Runs a command in `root`. Rejects with its output if it fails. */
export function runIn(root: string, order: Run): Promise<string> {
  const [file, ...args] = commandIn(root, order);
  return run(file, args, { env: order.env });
}
