import { faultOfPostgresTls, unverifiedModeOf } from './postgres-tls.ts';

/** Which characters of a user or password would be taken for something else. */
const ENCODE =
  'special characters of user and password must be percent-encoded (/ as %2F, # as %23, ? as %3F)';

/** PostgreSQL without a pooler before it: its sessions last. */
export function directUrlOf(config: { DATABASE_URL: string; DATABASE_DIRECT_URL: string }): string {
  return config.DATABASE_DIRECT_URL || config.DATABASE_URL;
}

/** Those of the replicas, one by one; empty: there are none. */
export function replicaUrlsOf({ DATABASE_REPLICA_URLS }: { DATABASE_REPLICA_URLS: string }): string[] {
  return DATABASE_REPLICA_URLS === '' ? [] : DATABASE_REPLICA_URLS.split(/,\s*/);
}

/** The variables with an address of PostgreSQL whose server is not verified, and the `sslmode` of each such address. */
export function unverifiedAddressesOf(config: {
  DATABASE_URL: string;
  DATABASE_DIRECT_URL: string;
  DATABASE_REPLICA_URLS: string;
}): [variable: string, sslmode: string][] {
  const all: [string, string][] = [
    ['DATABASE_URL', config.DATABASE_URL],
    ...(config.DATABASE_DIRECT_URL
      ? [['DATABASE_DIRECT_URL', config.DATABASE_DIRECT_URL] as [string, string]]
      : []),
    ...replicaUrlsOf(config).map((url): [string, string] => ['DATABASE_REPLICA_URLS', url]),
  ];
  return all.flatMap(([variable, address]) => {
    const mode = unverifiedModeOf(address);
    return mode === undefined ? [] : [[variable, mode] as [string, string]];
  });
}

/**
 * Why an address of PostgreSQL cannot be used; undefined: it can. It may name several hosts, `h1:5432,h2`, of which
 * postgres.js takes the first that answers. Nothing of the address is told.
 */
export function faultOfPostgresUrl(address: string): string | undefined {
  // hosts are what postgres.js takes for them: URL knows one alone
  const authority = address.slice(address.indexOf('://') + 3).split(/[?/]/)[0]!;
  const hosts = authority.slice(authority.indexOf('@') + 1);
  const [first, ...others] = hosts.split(',');
  const isHost = (host: string) => /^[^@]+$/.test(host) && URL.canParse(`postgres://${host}`);
  if (!others.every(isHost) || (others.length > 0 && !isHost(first!)))
    return `its hosts cannot be read; ${ENCODE}`;
  return faultOf(address.replace(hosts, () => first!)) ?? faultOfPostgresTls(address);
}

/** Why the addresses of Redis, of one server or of nodes of one cluster, cannot be used; undefined: they can. */
export function faultOfRedisUrls(addresses: string): string | undefined {
  const each = addresses.split(',').map((address) => address.trim());
  const fault = each.map(faultOf).find((found) => found !== undefined);
  if (fault !== undefined) return fault;
  const urls = each.map((address) => new URL(address));
  if (!urls.every(({ pathname }) => /^\/?\d*$/.test(pathname)))
    return 'what follows the host must be the number of a database';
  if (urls.length > 1 && !areOneCluster(urls))
    return 'several addresses must be nodes of one cluster, each with a host, the same user, password and scheme, and no database';
  return undefined;
}

/** The address as it may be shown: without user and password. */
export function withoutSecrets(address: string): string {
  // whatever stands before the last @ may be a password, whatever characters it holds
  return address.replace(/^([a-z]+:\/\/).*@/, '$1***@').replace(/(password=)[^&]*/gi, '$1***');
}

function faultOf(address: string): string | undefined {
  const url = URL.parse(address);
  // what stands behind a # is no part of any such address
  if (url?.hash !== '') return `check its host and port; ${ENCODE}`;
  try {
    decodeURIComponent(url.username + url.password + url.hostname);
  } catch {
    return 'a % that encodes nothing must be written %25';
  }
  return undefined;
}

/** Whether all are reached alike; a cluster has one database. */
function areOneCluster(urls: URL[]): boolean {
  const access = ({ protocol, username, password }: URL) => [protocol, username, password].join(' ');
  return urls.every(
    (url) =>
      url.hostname !== '' &&
      access(url) === access(urls[0]!) &&
      /^\/?0?$/.test(url.pathname) &&
      url.search === '',
  );
}
