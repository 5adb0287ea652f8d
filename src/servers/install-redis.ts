import { spawn } from 'node:child_process';
import { findProgram } from './programs.ts';
import { withoutServices } from './without-services.ts';

interface PackageManager {
  program: string;
  /** brew refuses root, the others need it */
  asRoot: boolean;
  /** tried in this order until one succeeds */
  commands: string[][];
}

/** Debian's names of packages, services and programs. */
const SERVERS = ['redis-server', 'valkey-server'];

const MANAGERS: PackageManager[] = [
  {
    program: 'apt-get',
    asRoot: true,
    commands: SERVERS.map((name) => [
      ...['install', '-y', '-qq', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=60', name],
    ]),
  },
  { program: 'brew', asRoot: false, commands: [['install', '--quiet', 'redis']] },
  { program: 'apk', asRoot: true, commands: ['redis', 'valkey'].map((name) => ['add', '--quiet', name]) },
  {
    program: 'dnf',
    asRoot: true,
    commands: ['redis', 'valkey'].map((name) => ['install', '-y', '-q', name]),
  },
];

const INSTALL_TIMEOUT_MS = 180_000;

/**
 * Installs Redis with the package manager of the system where the user may; true when that succeeded.
 * What is installed stays installed, but no service of the distribution is left running or enabled.
 */
export async function installRedis(say: (sentence: string) => void): Promise<boolean> {
  const isRoot = process.getuid?.() === 0;
  for (const { program, asRoot, commands } of MANAGERS) {
    if (asRoot !== isRoot) continue;
    const path = await findProgram([program]);
    if (!path) continue;
    say(`Redis is not installed here: installing it with ${program} (it stays installed).`);
    if (program === 'apt-get') return withoutServices(SERVERS, () => installWithApt(path, commands, say));
    for (const command of commands) if (await succeeds(path, command, say)) return true;
    return false;
  }
  say('No redis-server or valkey-server on the PATH, and no package manager this user may install it with.');
  return false;
}

async function installWithApt(
  aptGet: string,
  commands: string[][],
  say: (sentence: string) => void,
): Promise<boolean> {
  // the first try is without fresh lists: they may be there, and fetching them takes seconds
  for (const refresh of [false, true]) {
    if (refresh) await succeeds(aptGet, ['update', '-qq'], say);
    for (const command of commands) {
      if (await succeeds(aptGet, command, refresh ? say : () => {})) return true;
    }
  }
  return false;
}

/** Runs a command without input; what it printed last is said when it fails. */
async function succeeds(program: string, args: string[], say: (sentence: string) => void): Promise<boolean> {
  const child = spawn(program, args, {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', HOMEBREW_NO_AUTO_UPDATE: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: INSTALL_TIMEOUT_MS,
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => (printed = `${printed}${chunk}`.slice(-500)));
  const code = await new Promise((resolve) => child.once('error', resolve).once('close', resolve));
  if (code !== 0)
    say(`${program} ${args.join(' ')} failed: ${printed.trim().split('\n').slice(-3).join(' ')}`);
  return code === 0;
}
