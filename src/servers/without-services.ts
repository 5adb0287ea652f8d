import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { findProgram } from './programs.ts';

const POLICY_FILE = '/usr/sbin/policy-rc.d';

/**
 * Lets `install` run apt-get without a service of the distribution being started (Debian asks this file), and without
 * one that came by it being left enabled. `services` are those that may come, each named as its program; those that
 * were there before are the user's own and stay as they are.
 */
export async function withoutServices<T>(services: string[], install: () => Promise<T>): Promise<T> {
  const isThere = async (name: string) => (await findProgram([name])) !== undefined;
  const before = new Set<string>();
  for (const name of services) if (await isThere(name)) before.add(name);
  const lift = putPolicy();
  try {
    return await install();
  } finally {
    lift();
    const systemctl = await findProgram(['systemctl']);
    for (const name of services) {
      if (!systemctl || before.has(name) || !(await isThere(name))) continue;
      const disabling = spawn(systemctl, ['disable', '--quiet', name], { stdio: 'ignore' });
      // there may be no systemd behind it
      await once(disabling, 'close').catch(() => {});
    }
  }
}

/** Forbids services to start, until the returned function is called or this process exits; a policy that is there stays. */
function putPolicy(): () => void {
  try {
    writeFileSync(POLICY_FILE, '#!/bin/sh\nexit 101\n', { mode: 0o755, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return () => {};
    throw error;
  }
  const lift = () => {
    rmSync(POLICY_FILE, { force: true });
    process.removeListener('exit', lift);
  };
  process.on('exit', lift);
  return lift;
}
