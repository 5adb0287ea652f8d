import { percentDecode } from '../lib/percent-decode.ts';
import { faultOfPostgresTls } from './postgres-tls.ts';

/** Advice for users and passwords with characters that delimit the parts of an address. */
const ENCODE =
  'special characters of user and password must be percent-encoded (/ as %2F, # as %23, ? as %3F)';

/** Returns the addresses of DATABASE_REPLICA_URLS, or of REDIS_URL: of one server, or of nodes of a cluster. Possibly none. */
export function addressesOf(value: string): string[] {
  return value === '' ? [] : value.split(/\s*,\s*/);
}

/**
 * Returns why an address of PostgreSQL is unusable, without any part of it. An address may name several hosts, `h1:5432,h2`;
 * postgres.js uses the first that replies.
 */
export function faultsOfPostgresUrl(address: string): string[] {
  // hosts are parsed like in postgres.js, because URL supports only one
  const authority = address.slice(address.indexOf('://') + 3).split(/[?/]/)[0]!;
  const hosts = authority.slice(authority.indexOf('@') + 1);
  const [first, ...others] = hosts.split(',');
  const isHost = (host: string) => /^[^@]+$/.test(host) && URL.canParse(`postgres://${host}`);
  if (!others.every(isHost) || (others.length > 0 && !isHost(first!)))
    return [`its hosts cannot be read; ${ENCODE}`];
  const fault = faultOf(address.replace(hosts, () => first!)) ?? faultOfPostgresTls(address);
  return fault === undefined ? [] : [fault];
}

/** Returns why addresses of replicas are unusable. */
export function faultsOfReplicaUrls(addresses: string): string[] {
  return addressesOf(addresses).flatMap((url, i) =>
    faultsOfPostgresUrl(url).map((fault) => `address ${i + 1}: ${fault}`),
  );
}

/** Returns why the addresses of Redis are unusable, whether one server or nodes of one cluster. */
export function faultsOfRedisUrls(addresses: string): string[] {
  const each = addressesOf(addresses);
  const fault = each.map(faultOf).find((found) => found !== undefined);
  if (fault !== undefined) return [fault];
  const urls = each.map((address) => new URL(address));
  if (!urls.every(({ pathname }) => /^\/?\d*$/.test(pathname)))
    return ['what follows the host must be the number of a database'];
  if (urls.length > 1 && !areOneCluster(urls))
    return [
      'several addresses must be nodes of one cluster, each with a host, the same user, password and scheme, and no database',
    ];
  return [];
}

/** Returns the address with user and password, and a parameter `password`, replaced by `***`. */
export function withoutSecrets(address: string): string {
  // everything before the last @ may be part of a password, line breaks too
  return address.replace(/^([a-z]+:\/\/).*@/s, '$1***@').replace(/(password=)[^&]*/gi, '$1***');
}

function faultOf(address: string): string | undefined {
  const url = URL.parse(address);
  // none of these addresses has a fragment
  if (url?.hash !== '') return `check its host and port; ${ENCODE}`;
  const decoded = percentDecode(url.username + url.password + url.hostname);
  return decoded === undefined ? 'a % that encodes nothing must be written %25' : undefined;
}

/** Returns true if all addresses have the same user, password and scheme, and no database number. */
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
