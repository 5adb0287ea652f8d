import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const HOOK = fileURLToPath(new URL('./uws-hook.ts', import.meta.url));

/**
 * Installs another uWebSockets.js into a new folder. `spec` is one of npm: the address of an official release, a folder,
 * another package. Rejects with the output of npm.
 */
export async function installUws(spec: string): Promise<{ folder: string; release: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'hotel-api-uws-'));
  const release = () => rm(folder, { recursive: true, force: true });
  const options = ['--no-audit', '--no-fund', '--install-links'];
  const args = ['install', '--prefix', folder, ...options, `uWebSockets.js@${spec}`];
  await promisify(execFile)('npm', args, { cwd: folder }).catch(async (error: Error & { stderr: string }) => {
    await release();
    throw new Error(`TEST_UWS=${spec} cannot be installed: ${error.stderr}`);
  });
  return { folder, release };
}

/** Returns the environment of a service that uses the uWebSockets.js of that folder. */
export function uwsEnvironment(folder: string): Record<string, string> {
  return { NODE_OPTIONS: `--import=${HOOK}`, TEST_UWS_FOLDER: folder };
}
