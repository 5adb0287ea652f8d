import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import slotOf from 'cluster-key-slot';
import { Cluster } from 'ioredis';
import type { OnCall } from '../../lib/circuit-breaker.ts';
import { withDeadline } from '../../lib/deadline.ts';
import { BreakerCall, untilReady } from '../breaker-call.ts';
import { joined, type ReplyReader, Values } from '../reply-parser.ts';
import { COUNT_WINDOW, windowArguments, windowCountOf } from '../scripts.ts';
import {
  clientOptions,
  isUnavailable,
  type Login,
  loginOf,
  type RedisStore,
  retryAfterMs,
  type TimedValue,
  valueIn,
  type WindowCount,
  type WindowUse,
} from '../store.ts';
import { Commands } from './commands.ts';
import { type ClusterCredentials, Masters } from './masters.ts';
import { MgetKeys } from './mget-keys.ts';
import { connectorReporting } from './reporting-connector.ts';

/** Interval of refreshes of the slot map. Requests detect most changes earlier. */
const REFRESH_SLOTS_MS = 5_000;
const REDIRECTIONS = 4;

/**
 * Client of a Redis Cluster. Keys have no hash tags, so a batch spreads over all nodes. Reads go to each node at
 * once, in one round trip, and an unavailable node affects its own keys only. ioredis keeps the slot map and follows
 * redirections.
 */
export class RedisCluster implements RedisStore {
  readonly #cluster: Cluster;
  readonly #masters: Masters;
  readonly #commands: Commands;
  readonly #timeoutMs: number;

  /**
   * Connects to the cluster of which `urls` are some nodes; user, password and TLS are those of the first.
   * `onBreaker` is called when the first node's breaker opens and when the last one closes.
   */
  constructor(
    urls: string[],
    timeoutMs: number,
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall = () => {},
  ) {
    this.#timeoutMs = timeoutMs;
    const addresses = urls.map((url) => new URL(url));
    const credentials = credentialsOf(addresses);
    const call = new BreakerCall(timeoutMs, onCall);
    this.#cluster = connect(addresses, credentials, timeoutMs, (error) =>
      this.#masters.connectionFailed(error),
    );
    this.#masters = new Masters(this.#cluster, credentials, timeoutMs, call, onBreaker);
    this.#commands = new Commands(this.#cluster, this.#masters, call);
  }

  connected(timeoutMs: number): Promise<boolean> {
    return untilReady(() => this.#masters.ready, timeoutMs);
  }

  async read(key: string): Promise<Buffer | null | undefined> {
    let value: Buffer | null = null;
    const [isRead] = await this.#masters.each([slotOf(key)], async () => {
      value = valueIn(await withDeadline(this.#cluster.mgetBuffer(key), this.#timeoutMs));
    });
    return isRead ? value : undefined;
  }

  /** Reads the values from all nodes, and gives them to the reader as one reply. */
  async sendMget(
    command: Buffer,
    keys: number,
    reader: ReplyReader,
    onSent?: () => void,
  ): Promise<true | undefined> {
    const values = await this.#read(new MgetKeys(command, keys));
    onSent?.();
    if (!values) return undefined;
    reader.take(values.bytes, 0);
    reader.complete();
    return true;
  }

  async setMany(values: TimedValue[]): Promise<void> {
    await this.#commands.send(values.map(([key, value, ttlMs]) => [key, 'set', key, value, 'PX', ttlMs]));
  }

  async countWindow(key: string, use: WindowUse): Promise<WindowCount | undefined> {
    const replies = await this.#commands.send([[key, 'eval', COUNT_WINDOW, 1, key, ...windowArguments(use)]]);
    return replies && windowCountOf(replies[0]);
  }

  useLogin(login: Login): void {
    this.#masters.useLogin(login);
  }

  close(): void {
    this.#masters.close();
    this.#cluster.disconnect();
  }

  async #read(keys: MgetKeys): Promise<Values | undefined> {
    const parts: { values: Values; at: readonly number[] }[] = [];
    const areRead = await this.#masters.each(keys.slots, async (master, at) => {
      const { values, errorReplies } = await master.mget.readEach(keys.commandsOf(at), at.length);
      parts.push({ values, at });
      if (errorReplies.length === 0) return;
      const unavailable = errorReplies.find(([, error]) => isUnavailable(error));
      if (unavailable || errorReplies.some(([, { message }]) => message.startsWith('MOVED ')))
        this.#masters.refresh();
      if (unavailable) throw unavailable[1];
      const elsewhere = errorReplies.filter(([, { message }]) => /^(MOVED|ASK) /.test(message));
      await Promise.all(
        elsewhere.map(async ([place]) => {
          const value = await this.#readElsewhere(keys.key(at[place]!));
          if (value) parts.push({ values: new Values(value, [0, value.length]), at: [at[place]!] });
        }),
      );
    });
    return areRead.some(Boolean) ? joined(parts, keys.slots.length) : undefined;
  }

  /** Reads a key of a migrating slot: null if it is not found in time. */
  async #readElsewhere(key: string): Promise<Buffer | null> {
    try {
      return valueIn(await withDeadline(this.#cluster.mgetBuffer(key), this.#timeoutMs));
    } catch {
      return null;
    }
  }
}

function connect(
  addresses: URL[],
  credentials: ClusterCredentials,
  timeoutMs: number,
  onError: (error: Error) => void,
): Cluster {
  const { retryStrategy: _, enableOfflineQueue: __, ...redisOptions } = clientOptions(timeoutMs);
  return new Cluster(
    addresses.map(({ hostname, port }) => ({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: Number(port || 6379),
    })),
    {
      redisOptions: { ...redisOptions, ...credentials, Connector: connectorReporting(onError) },
      // ioredis would resolve each name and check the certificate against the IP address
      dnsLookup: (host, found) => found(null, host),
      clusterRetryStrategy: retryAfterMs,
      slotsRefreshTimeout: Math.max(timeoutMs, 250),
      slotsRefreshInterval: REFRESH_SLOTS_MS,
      maxRedirections: REDIRECTIONS,
      retryDelayOnFailover: 50,
      retryDelayOnClusterDown: 50,
      retryDelayOnTryAgain: 20,
    },
  );
}

function credentialsOf(addresses: URL[]): ClusterCredentials {
  const { protocol, href } = addresses[0]!;
  return {
    ...loginOf(href),
    ...(protocol === 'rediss:' && { tls: { checkServerIdentity: identityCheck(addresses) } }),
  };
}

/**
 * Accepts a certificate for the name of the node or for a host of `REDIS_URL`: managed clusters announce IP addresses
 * behind one certificate for the name of the cluster.
 */
function identityCheck(addresses: URL[]): typeof checkServerIdentity {
  const hosts = addresses.map(({ hostname }) => hostname);
  return (name: string, certificate: PeerCertificate) => {
    const fault = checkServerIdentity(name, certificate);
    const isKnown = () => hosts.some((host) => checkServerIdentity(host, certificate) === undefined);
    return fault && !isKnown() ? fault : undefined;
  };
}
