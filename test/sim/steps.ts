import type { HotelRow } from '../../src/hotels/row.ts';
import type { Episode } from './episode.ts';
import { Instance } from './instance.ts';
import type { Folder, PgServer } from './postgres.ts';
import { Random } from './random.ts';
import type { RedisServer } from './redis.ts';
import { sortedHotels } from './sequencer.ts';
import type { Process } from './world.ts';
import { drawStatements, hotelOf, insert, remove, update } from './writes.ts';

/** One thing that happens to the world. What it does depends on its draw and on the state of the world alone. */
export interface Step {
  atMs: number;
  kind: Kind;
  draw: number;
}

type Does = (episode: Episode, random: Random) => string | undefined;

/** Longest round trip to PostgreSQL for which docs/guarantees.md promises its bounds. */
const PROMISED_TRIP_MS = 150;

/** A duration of a fault: mostly short, sometimes longer than every bound, at times very long. */
function lastsMs(random: Random): number {
  const drawn = random.next();
  const most = drawn > 0.96 ? 150_000 : [300, 1_200, 3_000, 6_000, 12_000][Math.floor(5 * drawn)]!;
  return random.between(0.2, 1) * most;
}

const hostOf = (episode: Episode, random: Random) => random.pick(episode.instances).name;

/** Changes something about which instances reach PostgreSQL, and changes it back. */
function forAWhile(episode: Episode, forMs: number, begin: () => void, end: () => void): void {
  begin();
  episode.reached();
  episode.world.after(forMs, () => {
    end();
    episode.reached();
  });
}

/** Draws what another system writes in one transaction to a server. */
const statementsFor = ({ postgres, names, world }: Episode, random: Random, { folder }: PgServer) =>
  drawStatements(random, folder.data, names, postgres.sizes.maxPiece, world.trueWallMs);

/** Resets connections of a machine to servers whose names begin so. */
function reconnect({ network }: Episode, host: string, servers: string, isChosen: () => boolean): void {
  for (const connection of [...network.connections])
    if (connection.clientHost.name === host && connection.server.name.startsWith(servers) && isChosen())
      connection.reset();
}

const redisOf = (episode: Episode, random: Random): RedisServer => random.pick(episode.redis.servers);

const WRITES = {
  write: (episode, random) => {
    if (episode.world.nowMs < episode.silentUntilMs) return undefined;
    const { postgres } = episode;
    const statements = statementsFor(episode, random, postgres.primary);
    const isQuick = random.chance(0.6);
    const takesMs = isQuick ? 0 : random.chance(0.8) ? random.between(1, 120) : random.between(120, 4_000);
    const aborts = random.chance(0.05);
    if (!postgres.write(statements, takesMs, aborts)) return undefined;
    return `${statements.length} statements in ${takesMs.toFixed(0)} ms${aborts ? ', aborted' : ''}`;
  },
  refill: (episode, random) => {
    if (episode.world.nowMs < episode.silentUntilMs) return undefined;
    const { data } = episode.postgres.primary.folder;
    const missing = [...Array(episode.names.hotels).keys()].filter((n) => !data.hotels.has(`h${n}`));
    const chosen = missing.filter(() => random.chance(0.6));
    if (chosen.length === 0) return undefined;
    for (const n of chosen) episode.postgres.write([insert(hotelOf(`h${n}`, n))], 0);
    return `${chosen.length} hotels`;
  },
} satisfies Record<string, Does>;

const POSTGRES = {
  'postgres restarts': (episode, random) => {
    const server = episode.postgres.primary;
    const forMs = lastsMs(random);
    server.stop();
    episode.postgres.startAgain(server, forMs, random.chance(0.5) ? random.between(10, 1_500) : 0);
    return `${forMs.toFixed(0)} ms`;
  },
  'postgres freezes': (episode, random) => {
    const server = episode.postgres.primary;
    const forMs = lastsMs(random);
    const begin = () => Object.assign(server, { isFrozen: true });
    forAWhile(episode, forMs, begin, () => server.unfreeze());
    return `${forMs.toFixed(0)} ms`;
  },
  'postgres is slow': (episode, random) => {
    const server = episode.postgres.primary;
    const forMs = lastsMs(random);
    const slowMs = random.pick([30, 150, 500, 1_500]);
    if (slowMs >= PROMISED_TRIP_MS) episode.disturb(forMs + slowMs);
    const set = (slowMs: number) => () => Object.assign(server, { slowMs });
    forAWhile(episode, forMs, set(slowMs), set(0));
    return `${slowMs} ms more, for ${forMs.toFixed(0)} ms`;
  },
  'queries are late': (episode, random) => {
    const server = episode.postgres.primary;
    // two connections do not carry the clients then, nor do eight if more are late
    if (episode.instances.some(({ options }) => options.poolSize < 8)) return undefined;
    const forMs = lastsMs(random);
    const { lateShare } = server;
    server.lateShare = random.pick([0.2, 0.4]);
    episode.world.after(forMs, () => Object.assign(server, { lateShare }));
    return `${server.lateShare}, for ${forMs.toFixed(0)} ms`;
  },
  'hotels are locked': (episode, random) => {
    const server = episode.postgres.primary;
    const forMs = Math.min(lastsMs(random), 4_000);
    server.lockedUntilMs = episode.world.nowMs + forMs;
    episode.disturb(forMs);
    return `${forMs.toFixed(0)} ms`;
  },
  'sessions are ended': (episode) => {
    episode.postgres.primary.endSessions();
    episode.disturb(0);
    return '';
  },
  'replica is promoted': (episode, random) => {
    const { postgres, world } = episode;
    const { replica, primary: former } = postgres;
    if (!replica?.isUp || replica.isFrozen) return undefined;
    const lost = random.chance(0.7) ? random.whole(0, 4) : 0;
    postgres.setBack(replica, lost);
    const forMs = lastsMs(random);
    // the former primary may go on, and answer instances whose address still leads to it
    const mayBeMisled = (host: string) => random.chance(0.5) && !postgres.leads.has(host);
    const misled = random.chance(0.3) ? episode.hostNames.filter(mayBeMisled) : [];
    postgres.promote(misled);
    episode.wentBack();
    const end = () => {
      if (misled.length > 0 && former !== postgres.primary) former.stop();
      for (const host of misled) postgres.leads.delete(host);
    };
    forAWhile(episode, forMs, () => {}, end);
    world.after(forMs, () => postgres.startAgain(former));
    return `without its last ${lost} records; ${former.name} goes on for ${misled}`;
  },
  'folder is put back': (episode, random) => {
    const { postgres } = episode;
    const server = postgres.primary;
    const folder = random.pick(episode.folders);
    if (!folder || !server.isUp) return undefined;
    const forMs = Math.min(lastsMs(random), 3_000);
    server.stop();
    postgres.putBack(folder.folder);
    episode.wentBack();
    postgres.startAgain(server, forMs);
    return `of ${folder.atMs.toFixed(0)}, after ${forMs.toFixed(0)} ms`;
  },
  /** A dump is restored elsewhere, and the address leads there from now on. */
  'database is another': (episode, random) => {
    const { postgres } = episode;
    const folder = random.pick(episode.folders);
    if (!folder) return undefined;
    const isDump = random.chance(0.5);
    postgres.replaceBy(folder.folder, isDump);
    episode.wentBack();
    return `${isDump ? 'restored' : 'copied'} as of ${folder.atMs.toFixed(0)}`;
  },
  /** Another deployment uses a copy of the database from now on, and the same Redis. Its answers are not judged. */
  'copy is used elsewhere': (episode, random) => {
    const { postgres, world, names } = episode;
    if (episode.stranger || random.chance(0.5)) return undefined;
    const copy = postgres.copyOf(postgres.primary.folder, random.chance(0.5));
    postgres.leads.set('x0', copy);
    const { options } = episode.instances[0]!;
    episode.stranger = new Instance(world, 'x0', { ...options, hasReplica: false, workers: 1 });
    episode.stranger.start();
    const goOn = () => {
      postgres.write(statementsFor(episode, random, copy), 0, false, copy);
      for (let n = 0; n < names.hotels; n++) episode.clients?.visit(episode.stranger!, `h${n}`);
      world.after(episode.pace * random.between(50, 400), goOn);
    };
    goOn();
    return copy.name;
  },
  /** The address leads an instance to a copy for a while, which others use and change. */
  'address is wrong': (episode, random) => {
    const { postgres, world } = episode;
    const host = hostOf(episode, random);
    if (postgres.leads.has(host)) return undefined;
    const copy = postgres.copyOf(postgres.primary.folder, random.chance(0.3));
    const forMs = lastsMs(random);
    const write = () => {
      if (!copy.isUp) return;
      world.after(episode.pace * random.between(20, 200), write);
      postgres.write(statementsFor(episode, random, copy), 0, false, copy);
    };
    write();
    const begin = () => {
      postgres.leads.set(host, copy);
      reconnect(episode, host, 'pg', () => random.chance(0.7));
    };
    forAWhile(episode, forMs, begin, () => {
      if (postgres.leads.get(host) === copy) postgres.leads.delete(host);
      copy.stop();
    });
    return `${host} to ${copy.name}, ${forMs.toFixed(0)} ms`;
  },
  /** A hotel changes, and changes or is deleted; the second is read everywhere, and is lost before it has a position. */
  'future is lost': (episode, random) => {
    const { postgres, world } = episode;
    const { replica, primary } = postgres;
    const isPromotion = replica !== undefined && random.chance(0.5);
    const isDeleted = random.chance(0.5);
    const id = random.pick(sortedHotels(primary.folder.data))?.id;
    if (id === undefined || !primary.isUp || primary.isFrozen) return undefined;
    if (isPromotion && (!replica?.isUp || replica.isFrozen)) return undefined;
    const change = (row: HotelRow) => ({ ...row, room_count: random.whole(1, 999) });
    postgres.write([update([id], change)], 0);
    world.after(random.between(30, 60), () => {
      const folder = { ...primary.folder };
      if (!postgres.write([isDeleted ? remove([id]) : update([id], change)], 0)) return;
      episode.silentUntilMs = world.nowMs + 8_000;
      for (let i = 0; i < 6; i++) world.after(random.between(0, 8), () => episode.clients?.readAt(id));
      world.after(random.between(4, 12), () => {
        if (postgres.primary !== primary || !primary.isUp || replica !== postgres.replica) return;
        primary.stop();
        if (isPromotion) {
          replica!.folder = folder;
          postgres.promote([]);
        } else {
          postgres.putBack(folder);
          // a mirror that has the change cannot be told from others: not promised
          episode.mirrorsBeginMs = world.nowMs;
        }
        episode.wentBack();
        postgres.startAgain(primary, random.between(10, 2_000));
      });
    });
    return `${id}, by ${isPromotion ? 'a promotion' : 'an older folder'}`;
  },
  'folder is copied': (episode) => {
    const { postgres, world } = episode;
    episode.folders.push({ atMs: world.nowMs, folder: { ...postgres.primary.folder } });
    if (episode.folders.length > 4) episode.folders.shift();
    return '';
  },
  'replica lags': (episode, random) => {
    const { replica } = episode.postgres;
    if (!replica) return undefined;
    const forMs = lastsMs(random);
    const how = random.pick(['pause', 'delay', 'freeze', 'stop'] as const);
    const begin = () => {
      if (how === 'pause') replica.isReplayPaused = true;
      else if (how === 'delay') replica.replayDelayMs = random.between(50, 3_000);
      else if (how === 'freeze') replica.isFrozen = true;
      else if (replica.role === 'replica') replica.stop();
    };
    forAWhile(episode, forMs, begin, () => {
      replica.isReplayPaused = false;
      replica.replayDelayMs = 5;
      if (how === 'freeze') replica.unfreeze();
      if (how === 'stop' && replica.role === 'replica') episode.postgres.startAgain(replica);
      episode.postgres.replay(replica);
    });
    return `${how}, ${forMs.toFixed(0)} ms`;
  },
} satisfies Record<string, Does>;

const HISTORIES = {
  /** A database is copied beside itself. Later a dump takes its place, and then the copy: its history was followed before. */
  'copy takes the place': (episode, random) => {
    const { postgres, world } = episode;
    const { primary } = postgres;
    const folder = { ...primary.folder };
    const afterMs = random.between(500, 2_000);
    const replace = (by: Folder, isDump: boolean) => {
      postgres.replaceBy(by, isDump, true);
      episode.wentBack();
    };
    world.after(afterMs, () => {
      replace(postgres.primary.folder, true);
      world.after(random.between(1_000, 3_000), () => {
        // an older folder that was put back meanwhile does not have the copy
        if (postgres.primary.folder.nextXid < folder.nextXid) return;
        // the next write would begin another history
        episode.silentUntilMs = world.nowMs + 9_000;
        replace(folder, false);
      });
    });
    return `the dump after ${afterMs.toFixed(0)} ms`;
  },
} satisfies Record<string, Does>;

const NETWORK = {
  'link breaks': (episode, random) => {
    const host = hostOf(episode, random);
    const forMs = lastsMs(random);
    const server = random.chance(0.7) ? episode.postgres.primary.name : redisOf(episode, random).name;
    const how = random.pick(['both', 'up', 'down'] as const);
    const { network } = episode;
    const [up, down] = [network.link(host, server), network.link(server, host)];
    const links = { both: [up, down], up: [up], down: [down] }[how];
    const each = (does: 'block' | 'open') => () => links.forEach((link) => void link[does]());
    forAWhile(episode, forMs, each('block'), each('open'));
    return `${host} ${how} ${server}, ${forMs.toFixed(0)} ms`;
  },
  'connections are half-open': (episode, random) => {
    const host = hostOf(episode, random);
    const share = random.pick([0.3, 1]);
    let count = 0;
    for (const connection of episode.network.connections) {
      if (connection.clientHost.name !== host || !random.chance(share)) continue;
      connection.isVoid = true;
      episode.network.connections.delete(connection);
      count++;
    }
    // each of them swallows one query, whenever it is used
    episode.disturb(15_000, [host]);
    return `${count} of ${host}`;
  },
  'link is slow': (episode, random) => {
    const host = hostOf(episode, random);
    const server = episode.postgres.primary.name;
    const forMs = lastsMs(random);
    const delayMs = random.pick([20, 80, 300, 900]);
    const links = [episode.network.link(host, server), episode.network.link(server, host)];
    // two connections carry 50 queries a second over the fastest of them, and the clients may cause more
    const isFew = episode.instances.some(({ options }) => options.poolSize < 8);
    if (isFew || 2 * delayMs > PROMISED_TRIP_MS) episode.disturb(forMs + 2 * delayMs, [host]);
    const set = (ms: number) => () => {
      for (const link of links) link.delayMs = ms;
    };
    forAWhile(episode, forMs, set(delayMs), set(0.2));
    return `${host}, ${delayMs} ms, for ${forMs.toFixed(0)} ms`;
  },
} satisfies Record<string, Does>;

/** A property of a Redis server that has another value for a while. */
const redisFor =
  <Key extends 'isFrozen' | 'rejectsWrites' | 'losesWrites' | 'delaysWrites' | 'slowMs'>(
    property: Key,
    values: readonly RedisServer[Key][],
  ): Does =>
  (episode, random) => {
    const server = redisOf(episode, random);
    const forMs = lastsMs(random);
    const usual = server[property];
    server[property] = random.pick(values);
    episode.checker.redisFails(forMs);
    episode.world.after(forMs, () => {
      server[property] = usual;
      server.unfreeze();
    });
    return `${server.name}, ${server[property]}, ${forMs.toFixed(0)} ms`;
  };

const REDIS = {
  'redis stops': (episode, random) => {
    const server = redisOf(episode, random);
    const forMs = lastsMs(random);
    const old = random.chance(0.5) ? server.copy() : undefined;
    server.stop();
    episode.checker.redisFails(forMs);
    episode.world.after(forMs, () => {
      server.isUp = true;
      server.putBack(old ?? new Map(), true);
    });
    return `${server.name}, ${forMs.toFixed(0)} ms, back ${old ? 'as it was' : 'empty'}`;
  },
  'redis freezes': redisFor('isFrozen', [true]),
  'redis is slow': redisFor('slowMs', [5, 60, 200]),
  'redis rejects writes': redisFor('rejectsWrites', [true]),
  'redis loses writes': redisFor('losesWrites', [0.3, 1]),
  'redis writes late': redisFor('delaysWrites', [0.2, 0.7]),
  'redis is copied': (episode, random) => {
    const server = redisOf(episode, random);
    episode.dumps.push(server.copy());
    if (episode.dumps.length > 4) episode.dumps.shift();
    return server.name;
  },
  'redis is put back': (episode, random) => {
    const server = redisOf(episode, random);
    const dump = random.pick(episode.dumps);
    if (!dump) return undefined;
    server.putBack(dump, random.chance(0.5));
    episode.checker.redisFails();
    return server.name;
  },
  'redis evicts': (episode, random) => {
    const server = redisOf(episode, random);
    server.evict(random.pick([0.3, 1]));
    episode.checker.redisFails();
    return server.name;
  },
  /** One server for each instance: another one. A cluster: slots move, or a node is lost for good and another has its slots. */
  'redis is another': (episode, random) => {
    const { redis } = episode;
    episode.checker.redisFails();
    const server = redisOf(episode, random);
    if (redis.owners) {
      const from = redisOf(episode, random);
      const isLost = random.chance(0.5);
      if (isLost) from.values.clear();
      redis.move(from, server, isLost ? 1 : random.next());
      return `${from.name}, ${isLost ? 'lost' : 'some slots of it'}: ${server.name}`;
    }
    const host = hostOf(episode, random);
    redis.lead(host, server);
    reconnect(episode, host, 'redis', () => true);
    return `${server.name} for ${host}`;
  },
} satisfies Record<string, Does>;

/** Lets processes of an instance stand still, and go on. */
const stops =
  (processesOf: (instance: Instance, random: Random) => Process[]): Does =>
  (episode, random) => {
    const instance = random.pick(episode.instances);
    const processes = processesOf(instance, random);
    if (processes.length === 0) return undefined;
    const forMs = lastsMs(random);
    episode.disturb(forMs, [instance.name]);
    const halted = processes.filter((process) => process.halt());
    const fromMs = episode.world.nowMs;
    episode.world.after(forMs, () => {
      for (const process of halted) process.goOn();
      // they notice now that the clock was set meanwhile
      const { clockSteps } = episode.checker;
      if (clockSteps.get(instance.name)! > fromMs) clockSteps.set(instance.name, episode.world.nowMs);
    });
    return `${instance.name}, ${forMs.toFixed(0)} ms`;
  };

const PROCESSES = {
  'worker stops': stops(({ ready }, random) => {
    const worker = random.pick(ready);
    return worker ? [worker.process] : [];
  }),
  'primary stops': stops(({ primary }) => (primary ? [primary] : [])),
  'instance stops': stops(({ processes }) => processes),
  'machine sleeps': (episode, random) => {
    const instance = random.pick(episode.instances);
    const forMs = lastsMs(random);
    const { host, processes } = instance;
    if (host.isAsleep || processes.length === 0 || processes.some(({ isStopped }) => isStopped))
      return undefined;
    episode.disturb(forMs, [instance.name]);
    for (const process of processes) process.halt();
    host.isAsleep = true;
    episode.world.after(forMs, () => {
      Object.assign(host, { isAsleep: false, sleptMs: host.sleptMs + forMs });
      episode.checker.woken(instance.name);
      for (const process of processes) process.goOn();
    });
    return `${instance.name}, ${forMs.toFixed(0)} ms`;
  },
  'worker dies': (episode, random) => {
    const worker = random.pick([...random.pick(episode.instances).workers]);
    if (!worker) return undefined;
    worker.process.kill();
    return worker.process.name;
  },
  'instance restarts': (episode, random) => {
    const instance = random.pick(episode.instances);
    if (instance.host.isAsleep) return undefined;
    const forMs = random.between(10, 3_000);
    instance.kill();
    episode.world.after(forMs, () => instance.start());
    return `${instance.name}, ${forMs.toFixed(0)} ms`;
  },
} satisfies Record<string, Does>;

const CLOCKS = {
  'clock is set': (episode, random) => {
    const host = hostOf(episode, random);
    const byMs = random.pick([-1, 1]) * random.pick([500, 3_000, 60_000, 3_600_000, 30 * 3_600_000]);
    episode.world.host(host).wallAheadMs += byMs;
    episode.checker.clockSteps.set(host, episode.world.nowMs);
    return `${host}, ${byMs} ms`;
  },
} satisfies Record<string, Does>;

const DOES = { ...WRITES, ...POSTGRES, ...HISTORIES, ...NETWORK, ...REDIS, ...PROCESSES, ...CLOCKS };
export type Kind = keyof typeof DOES;

export function take(episode: Episode, step: Step): void {
  const random = new Random(`${episode.world.seed} step ${step.draw}`);
  const does: Does = DOES[step.kind];
  const text = does(episode, random);
  if (text !== undefined) episode.world.trace(`STEP ${step.kind}: ${text}`);
}

/** Times of an episode in which much happens. Between them little does, so that they cost most of a run. */
export type Busy = readonly { fromMs: number; untilMs: number }[];

/** A short episode is busy all the time. */
export function drawBusy(random: Random, untilMs: number): Busy {
  if (untilMs <= 60_000) return [{ fromMs: 0, untilMs }];
  const busy = [];
  for (let fromMs = 0; fromMs < untilMs; ) {
    const toMs = fromMs + random.between(10_000, 20_000);
    busy.push({ fromMs, untilMs: Math.min(toMs, untilMs) });
    fromMs = toMs + random.between(30_000, 250_000);
  }
  return busy;
}

/** Draws the steps of an episode. */
export function drawSteps(random: Random, busy: Busy, untilMs: number): Step[] {
  const steps: Step[] = [];
  let draw = 0;
  const add = (kind: Kind, fromMs: number, endMs: number, pauseMs: () => number) => {
    for (let atMs = fromMs; atMs < endMs; atMs += pauseMs()) steps.push({ atMs, kind, draw: draw++ });
  };
  const gapMs = random.pick([25, 60, 200, 600]);
  for (const each of busy)
    add('write', each.fromMs + 300, each.untilMs, () => random.between(0.1, 2) * gapMs);
  for (const each of busy)
    add('refill', each.fromMs + 4_000, each.untilMs, () => random.between(3_000, 9_000));
  const families = [POSTGRES, POSTGRES, NETWORK, REDIS, PROCESSES, CLOCKS].map(
    (family) => Object.keys(family) as Kind[],
  );
  // some episodes attack with few kinds of faults, again and again
  const kinds = random.chance(0.5)
    ? [[...Array.from({ length: 3 }, () => random.pick(random.pick(families))), 'folder is copied' as const]]
    : families.filter(() => random.chance(0.5));
  // quiet times show that the short bounds hold
  const calmMs = random.pick([1_000, 3_000, 10_000]);
  for (const each of busy) {
    const endMs = Math.min(each.untilMs, untilMs - 9_000);
    for (let atMs = each.fromMs + 2_500; atMs < endMs; atMs += random.between(0.05, 2) * calmMs)
      if (kinds.length > 0) steps.push({ atMs, kind: random.pick(random.pick(kinds)), draw: draw++ });
  }
  for (const [i, each] of busy.entries())
    add('write', each.untilMs, busy[i + 1]?.fromMs ?? untilMs, () => random.between(2_000, 40_000));
  if (random.chance(0.12))
    for (const { fromMs, untilMs: endMs } of busy)
      if (endMs - fromMs > 5_000)
        add('copy takes the place', random.between(fromMs + 4_000, endMs), endMs, () => Infinity);
  return steps.sort((a, b) => a.atMs - b.atMs || a.draw - b.draw);
}
