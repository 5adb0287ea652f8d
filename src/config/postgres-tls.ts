import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import {
  type ConnectionOptions,
  checkServerIdentity,
  createSecureContext,
  type PeerCertificate,
  type SecureContext,
  type SecureContextOptions,
} from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import { percentDecode } from '../lib/percent-decode.ts';

const MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
type Mode = (typeof MODES)[number];

/** File parameters of an address, and the option of Node's TLS for their content. */
const FILES = { sslrootcert: 'ca', sslcert: 'cert', sslkey: 'key' } as const;

/** Value of `sslrootcert` for the certificate authorities of the system, as in libpq 16. */
const SYSTEM = 'system';

/** Error codes of a failed TLS handshake, most of them for a rejected certificate. */
export const TLS_FAULT =
  /^(ERR_TLS_|ERR_SSL_|EPROTO|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH|INVALID_)/;

/** Names of files by parameter. */
type Files = Partial<Record<keyof typeof FILES, string>>;

/**
 * Reads the TLS parameters of an address like libpq: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`. `require` with a
 * root certificate verifies the authority. `channel_binding` is dropped, because postgres.js does not support it;
 * `verify-full` gives the same protection. The files are read for each connection; while they are unusable, what they last
 * contained is used. Throws if they never were usable. Returns the option `ssl` of postgres.js, and what that would send or
 * decode wrongly: the address without these parameters, and the name of its database.
 */
export function postgresTlsOf(address: string) {
  const { mode, files, hosts, url, database } = parse(address);
  if (mode === undefined || mode === 'disable') return { url, database, ssl: false };
  if (mode === 'prefer') return { url, database, ssl: 'prefer' };
  contextOf(files);
  const ssl: ConnectionOptions = {
    rejectUnauthorized: mode !== 'require' || files.sslrootcert !== undefined,
    checkServerIdentity: mode === 'verify-full' ? identityCheck(hosts) : () => undefined,
    // postgres.js copies the options for each connection
    get secureContext() {
      return contextOf(files);
    },
  };
  return { url, database, ssl };
}

/** Files of an address when they were last usable, by their names. */
const usable = new Map<string, { contents: SecureContextOptions; context: SecureContext }>();

/** Reads the files of an address together: an old certificate does not fit a new key. Undefined: it names no file. */
function contextOf(files: Files): SecureContext | undefined {
  const names = JSON.stringify(files);
  try {
    const contents: SecureContextOptions = {};
    for (const [name, path] of Object.entries(files) as [keyof typeof FILES, string][]) {
      if (path === SYSTEM) continue;
      const content = readFileSync(path);
      if (content.length === 0) throw new Error(`the file of ${name} is empty`);
      contents[FILES[name]] = content;
    }
    if (Object.keys(contents).length === 0) return undefined;
    if (!isDeepStrictEqual(contents, usable.get(names)?.contents))
      usable.set(names, { contents, context: createSecureContext(contents) });
  } catch (error) {
    if (!usable.has(names)) throw error;
  }
  return usable.get(names)!.context;
}

/** Returns why the TLS parameters are unusable; undefined if they are usable. */
export function faultOfPostgresTls(address: string): string | undefined {
  const { mode, files, isMisnamed } = parse(address);
  if (isMisnamed) return 'of the parameters of TLS, only sslmode, sslrootcert, sslcert and sslkey are known';
  if (mode !== undefined && !MODES.includes(mode as Mode))
    return `sslmode must be one of ${MODES.join(', ')}`;
  const [named] = Object.keys(files);
  if (named !== undefined && (mode === undefined || mode === 'disable' || mode === 'prefer'))
    return `${named} needs sslmode require, verify-ca or verify-full`;
  if ((files.sslcert === undefined) !== (files.sslkey === undefined))
    return 'sslcert and sslkey belong together';
  try {
    contextOf(files);
    return undefined;
  } catch (error) {
    const { path, code, message } = error as NodeJS.ErrnoException;
    const [unread] = Object.entries(files).find(([, each]) => each === path) ?? [];
    if (unread !== undefined) return `the file of ${unread} cannot be read (${code})`;
    return code === undefined ? message : `${Object.keys(files).join(' and ')} cannot be used (${code})`;
  }
}

/** Returns the TLS parameters of an address, and the address without them. */
function parse(address: string) {
  const mark = address.indexOf('?');
  const base = mark < 0 ? address : address.slice(0, mark);
  const parameters = new URLSearchParams(mark < 0 ? '' : address.slice(mark + 1));
  const files: Files = {};
  for (const name of Object.keys(FILES) as (keyof typeof FILES)[]) {
    const path = parameters.get(name);
    if (path) files[name] = path;
    parameters.delete(name);
  }
  // the same default as in libpq; undefined: not in the address
  const mode: string | undefined =
    parameters.get('sslmode') ?? (files.sslrootcert === SYSTEM ? 'verify-full' : undefined);
  parameters.delete('sslmode');
  parameters.delete('channel_binding');
  // the connections of workers are read only, and postgres.js would find no other
  if (parameters.get('target_session_attrs') === 'read-write')
    parameters.set('target_session_attrs', 'primary');
  const [authority = '', ...path] = base.slice(base.indexOf('://') + 3).split('/');
  const hosts = authority
    .slice(authority.lastIndexOf('@') + 1)
    .split(',')
    .map((host) => host.replace(/:\d*$/, '').replace(/^\[|\]$/g, ''));
  // such as `ssl` or `SSLMODE`: ignored, it would leave a connection unencrypted that is meant to be
  const isMisnamed = [...parameters.keys()].some((name) => /^ssl/i.test(name));
  const rest = parameters.size > 0 ? `?${parameters}` : '';
  const database = path.join('/');
  return { mode, files, isMisnamed, hosts, url: base + rest, database: percentDecode(database) ?? database };
}

/** Checks a certificate against an IP address: postgres.js passes no host then, and Node would check for `localhost`. */
function identityCheck(hosts: string[]): typeof checkServerIdentity {
  const addresses = hosts.filter((host) => isIP(host));
  return (name: string, certificate: PeerCertificate) => {
    if (hosts.includes(name) || addresses.length === 0) return checkServerIdentity(name, certificate);
    const faults = addresses.map((address) => checkServerIdentity(address, certificate));
    return faults.includes(undefined) ? undefined : faults[0];
  };
}
