import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { read } from '../documents/files.ts';
import { needs } from '../support/needs.ts';
import { run } from '../support/run.ts';

await needs('unshare', 'ip');

/** Bytes from which on the HTTP library reads again at once, in the same iteration of the event loop. */
const READ_ON_BYTES = 488 * 1024;
const MIB = 1024 * 1024;
const SET = `
  ip link set lo up
  for setting in rmem wmem; do echo "$1" >/proc/sys/net/ipv4/tcp_$setting; shift; done
  exec "$@"`;

/** Returns what a script of this folder prints in a network namespace that is set as the manifests say. */
async function inPod(script: string, bytes: number): Promise<number> {
  const manifest = read('k8s/base/deployment.yaml');
  const { sysctls } = parse(manifest).spec.template.spec.securityContext;
  const names = sysctls.map(({ name }: { name: string }) => name);
  expect(names).toEqual(['net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem']);
  const values = sysctls.map(({ value }: { value: string }) => value);
  const path = fileURLToPath(new URL(script, import.meta.url));
  const command = ['sh', '-ec', SET, 'sh', ...values, process.execPath, path, String(bytes)];
  return Number(await run('unshare', ['--net', '--map-root-user', ...command]));
}

describe('with the buffers of the manifests', () => {
  it('the library reads a connection once in each iteration', async () => {
    const largest = await inPod('./largest-read.ts', 512 * MIB);
    expect(largest).toBeGreaterThan(0);
    expect(largest).toBeLessThan(READ_ON_BYTES);
  });

  it('the kernel holds little of a response that its client does not read, in both of their buffers', async () => {
    const held = await inPod('./largest-write.ts', 64 * MIB);
    expect(held).toBeGreaterThan(0);
    expect(held).toBeLessThan(MIB);
  });
});
