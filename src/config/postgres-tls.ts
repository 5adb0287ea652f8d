import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type ConnectionOptions, checkServerIdentity, type PeerCertificate } from 'node:tls';

const MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
type Mode = (typeof MODES)[number];

/** Files that an address may name, and the option of Node's TLS that takes their content. */
const FILES = { sslrootcert: 'ca', sslcert: 'cert', sslkey: 'key' } as const;

/** The certificate authorities of Node, as `sslrootcert` of libpq 16 names those of the system. */
const SYSTEM = 'system';

/** Codes of errors that say that no TLS connection can be had, most of them because a certificate is not accepted. */
export const TLS_FAULT =
  /^(ERR_TLS_|ERR_SSL_|EPROTO|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH|INVALID_)/;

/** What an address of PostgreSQL says of TLS. */
interface Tls {
  /** undefined: the address does not say */
  mode: string | undefined;
  /** by parameter */
  files: Partial<Record<keyof typeof FILES, string>>;
  hosts: string[];
  /** the address without its parameters of TLS */
  url: string;
}

/** How a connection is secured. */
export interface PostgresTls {
  /** the address without its parameters of TLS, which postgres.js would send to the server as settings */
  url: string;
  /** as postgres.js takes it */
  ssl: ConnectionOptions | 'prefer' | false;
}

/**
 * Reads TLS of an address as libpq does: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`. `require` with a root
 * certificate verifies the authority. `channel_binding` is dropped: postgres.js has no SCRAM with channel binding, and
 * `verify-full` gives the same protection. Throws where a file cannot be read.
 */
export function postgresTlsOf(address: string): PostgresTls {
  const { mode, files, hosts, url } = parse(address);
  if (mode === undefined || mode === 'disable') return { url, ssl: false };
  if (mode === 'prefer') return { url, ssl: 'prefer' };
  const ssl: ConnectionOptions = { rejectUnauthorized: verifies(address) };
  for (const [name, option] of Object.entries(FILES) as [keyof typeof FILES, 'ca' | 'cert' | 'key'][]) {
    const path = files[name];
    if (path !== undefined && path !== SYSTEM) ssl[option] = readFileSync(path);
  }
  ssl.checkServerIdentity = mode === 'verify-full' ? identityCheck(hosts) : () => undefined;
  return { url, ssl };
}

/** Why the parameters of TLS cannot be used; undefined: they can. */
export function faultOfPostgresTls(address: string): string | undefined {
  const { mode, files } = parse(address);
  if (mode !== undefined && !MODES.includes(mode as Mode))
    return `sslmode must be one of ${MODES.join(', ')}`;
  const [named] = Object.keys(files);
  if (named !== undefined && (mode === undefined || mode === 'disable' || mode === 'prefer'))
    return `${named} needs sslmode require, verify-ca or verify-full`;
  if ((files.sslcert === undefined) !== (files.sslkey === undefined))
    return 'sslcert and sslkey belong together';
  for (const [name, path] of Object.entries(files)) {
    try {
      if (path !== SYSTEM) readFileSync(path);
    } catch (error) {
      return `the file of ${name} cannot be read (${(error as NodeJS.ErrnoException).code})`;
    }
  }
  return undefined;
}

/**
 * The `sslmode` of an address whose server is not verified, for a warning; undefined: its certificate is verified, or the
 * operator has switched TLS off, or it is on this machine.
 */
export function unverifiedModeOf(address: string): string | undefined {
  const { mode = 'unset', hosts } = parse(address);
  const isLocal = hosts.every((host) => /^(localhost|127\..*|::1|)$/.test(host));
  return mode === 'disable' || isLocal || verifies(address) ? undefined : mode;
}

function verifies(address: string): boolean {
  const { mode, files } = parse(address);
  return (
    mode === 'verify-ca' || mode === 'verify-full' || (mode === 'require' && files.sslrootcert !== undefined)
  );
}

function parse(address: string): Tls {
  const mark = address.indexOf('?');
  const base = mark < 0 ? address : address.slice(0, mark);
  const parameters = new URLSearchParams(mark < 0 ? '' : address.slice(mark + 1));
  const files: Tls['files'] = {};
  for (const name of Object.keys(FILES) as (keyof typeof FILES)[]) {
    const path = parameters.get(name);
    if (path) files[name] = path;
    parameters.delete(name);
  }
  // as in libpq
  const mode = parameters.get('sslmode') ?? (files.sslrootcert === SYSTEM ? 'verify-full' : undefined);
  parameters.delete('sslmode');
  parameters.delete('channel_binding');
  const authority = base.slice(base.indexOf('://') + 3).split('/')[0]!;
  const hosts = authority
    .slice(authority.lastIndexOf('@') + 1)
    .split(',')
    .map((host) => host.replace(/:\d*$/, '').replace(/^\[|\]$/g, ''));
  const rest = parameters.size > 0 ? `?${parameters}` : '';
  return { mode, files, hosts, url: base + rest };
}

/** postgres.js names no host for an IP address, and Node would check the certificate for `localhost`. */
function identityCheck(hosts: string[]): typeof checkServerIdentity {
  const addresses = hosts.filter((host) => isIP(host));
  return (name: string, certificate: PeerCertificate) => {
    if (hosts.includes(name) || addresses.length === 0) return checkServerIdentity(name, certificate);
    const faults = addresses.map((address) => checkServerIdentity(address, certificate));
    return faults.includes(undefined) ? undefined : faults[0];
  };
}
