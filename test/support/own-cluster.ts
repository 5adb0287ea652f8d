import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { vi } from 'vitest';
import { freePort } from '../../src/demo/servers/port.ts';
import { type OwnServer, ownRedis, type RedisTls, tlsOptions } from './own-server.ts';
import { polling } from './projects.ts';
import { redisClient } from './redis-use.ts';

const ADMIN = 'admin';
const SLOTS = 16_384;
/** Also in hooks, where expect.poll is not available. */
const WAITING = polling.poll;
/** Silence after which the other nodes consider a node dead. */
const NODE_TIMEOUT_MS = 1_000;

/** Options of a node that names itself by a name of its certificate. */
const TLS_BY_NAME = [
  ...['--tls-cluster', 'yes', '--cluster-announce-hostname', 'localhost'],
  ...['--cluster-preferred-endpoint-type', 'hostname'],
];

export interface ClusterNode {
  server: OwnServer;
  id: string;
  /** connection of a user with all rights */
  admin: Redis;
}

/** Redis Cluster of one test file: three masters with equal shares of the slots, and a replica of each. */
export class OwnCluster {
  readonly masters: ClusterNode[];
  readonly replicas: ClusterNode[];

  private constructor(nodes: ClusterNode[]) {
    this.masters = nodes.slice(0, 3);
    this.replicas = nodes.slice(3);
  }

  /**
   * Starts a cluster. No replica replaces a master by itself: a test decides which one does, and when. `rules` are lines of
   * an ACL file; a user with all rights is added. With `tls` the nodes accept TLS only, announce themselves as `localhost`, and have no replicas.
   */
  static async start(rules: string, tls?: RedisTls): Promise<OwnCluster> {
    const cluster = new OwnCluster(
      await Promise.all(Array.from({ length: tls ? 3 : 6 }, () => startNode(rules, tls))),
    );
    await cluster.#form();
    return cluster;
  }

  get nodes(): ClusterNode[] {
    return [...this.masters, ...this.replicas];
  }

  /** Returns the addresses of some nodes for the user of the service. */
  url(password: string): string {
    return this.nodes
      .slice(1, 4)
      .map(({ server }) => `redis://hotel-api:${encodeURIComponent(password)}@127.0.0.1:${server.port}`)
      .join(',');
  }

  /**
   * Begins to move slots between masters: their keys are moved, and requests for them are redirected. Returns a function
   * that completes the move.
   */
  async move(slots: number[], from: ClusterNode, to: ClusterNode): Promise<() => Promise<void>> {
    await Promise.all(
      slots.map(async (slot) => {
        await to.admin.cluster('SETSLOT', slot, 'IMPORTING', from.id);
        await from.admin.cluster('SETSLOT', slot, 'MIGRATING', to.id);
        const keys = (await from.admin.cluster('GETKEYSINSLOT', slot, 100_000)) as string[];
        if (keys.length === 0) return;
        await from.admin.call(
          'MIGRATE',
          ...['127.0.0.1', to.server.port, '', 0, 5_000, 'REPLACE', 'AUTH2', ADMIN, ADMIN, 'KEYS', ...keys],
        );
      }),
    );
    return async () => {
      for (const { admin } of [to, from, ...this.masters])
        await Promise.all(slots.map((slot) => admin.cluster('SETSLOT', slot, 'NODE', to.id)));
    };
  }

  /** Resolves when every running node sees all slots served, and this one as a master. */
  async settled(master: ClusterNode): Promise<void> {
    const running = this.nodes.filter(({ admin }) => admin.status === 'ready');
    await vi.waitUntil(async () => {
      const views = await Promise.all(running.map(({ admin }) => viewOf(admin)));
      return views.every((view) => view.serves && view.masters.includes(master.id));
    }, WAITING);
  }

  async #form(): Promise<void> {
    const [first] = this.masters as [ClusterNode];
    await Promise.all(
      this.masters.map(async ({ admin }, i) => {
        await admin.cluster('SET-CONFIG-EPOCH', i + 1);
        const start = Math.ceil((i * SLOTS) / 3);
        await admin.cluster('ADDSLOTSRANGE', start, Math.ceil(((i + 1) * SLOTS) / 3) - 1);
      }),
    );
    for (const { server, admin } of this.nodes.slice(1)) {
      const bus = Number(((await admin.config('GET', 'cluster-port')) as string[])[1]);
      await first.admin.call('CLUSTER', 'MEET', '127.0.0.1', server.port, bus);
    }
    for (const [i, replica] of this.replicas.entries()) {
      const { id } = this.masters[i]!;
      await vi.waitUntil(async () => (await viewOf(replica.admin)).masters.includes(id), WAITING);
      await replica.admin.cluster('REPLICATE', id);
    }
    for (const master of this.masters) await this.settled(master);
    for (const { admin } of this.replicas) await replicates(admin);
  }
}

/** Resolves when a replica has all data of its master. */
export async function replicates(replica: Redis): Promise<void> {
  const isUp = async () => (await replica.info('replication')).includes('master_link_status:up');
  await vi.waitUntil(isUp, WAITING);
}

async function startNode(rules: string, tls?: RedisTls): Promise<ClusterNode> {
  const { server } = await ownRedis(async (port, folder) => {
    const users = join(folder, 'users.acl');
    await writeFile(users, `${rules}\nuser ${ADMIN} on >${ADMIN} ~* &* +@all\n`);
    return [
      ...['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())],
      ...['--cluster-node-timeout', String(NODE_TIMEOUT_MS), '--cluster-replica-validity-factor', '0'],
      ...['--cluster-replica-no-failover', 'yes'],
      ...['--aclfile', users, '--masteruser', ADMIN, '--masterauth', ADMIN],
      ...['--repl-diskless-sync-delay', '0'],
      ...(tls ? [...tlsOptions(port, tls), ...TLS_BY_NAME] : []),
    ];
  });
  const options = tls && { tls: { rejectUnauthorized: false } };
  const admin = redisClient(`redis://${ADMIN}:${ADMIN}@127.0.0.1:${server.port}`, options);
  return { server, admin, id: String(await admin.cluster('MYID')) };
}

/** Returns a node's view of the cluster. */
async function viewOf(node: Redis): Promise<{ masters: string[]; serves: boolean }> {
  const info = String(await node.cluster('INFO'));
  const lines = String(await node.cluster('NODES'))
    .trim()
    .split('\n');
  const masters = lines
    .map((line) => line.split(' '))
    .filter(([, , flags]) => /master(?!.*\bfail\b)/.test(flags!));
  const serves = info.includes('cluster_state:ok') && info.includes(`cluster_slots_ok:${SLOTS}`);
  return { masters: masters.map(([id]) => id!), serves };
}
