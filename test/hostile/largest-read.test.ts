import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { needs } from '../support/needs.ts';

await needs('unshare', 'ip');

/** Bytes from which on the HTTP library reads again at once, in the same iteration of the event loop. */
const READ_ON_BYTES = 488 * 1024;
const SENT_BYTES = 512 * 1024 * 1024;
const script = fileURLToPath(new URL('./largest-read.ts', import.meta.url));

it('with the receive buffer of the manifests, the library reads a connection once in each iteration', async () => {
  const manifest = await readFile(new URL('../../k8s/base/deployment.yaml', import.meta.url), 'utf8');
  const [sysctl] = parse(manifest).spec.template.spec.securityContext.sysctls;
  expect(sysctl.name).toBe('net.ipv4.tcp_rmem');
  const set = `ip link set lo up && echo "$1" >/proc/sys/net/ipv4/tcp_rmem && exec "$2" "$3" ${SENT_BYTES}`;
  const inNamespace = ['--net', '--map-root-user', 'sh', '-ec', set, 'sh', sysctl.value];
  const { stdout } = await promisify(execFile)('unshare', [...inNamespace, process.execPath, script]);
  expect(Number(stdout)).toBeGreaterThan(0);
  expect(Number(stdout)).toBeLessThan(READ_ON_BYTES);
});
