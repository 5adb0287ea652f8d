import type { HotelRow } from '../../src/hotels/row.ts';
import type { Episode } from './episode.ts';
import { Random } from './random.ts';
import type { RedisServer } from './redis.ts';
import { sortedHotels } from './sequencer.ts';
import type { Process } from './world.ts';
import { drawStatements, hotelOf, insert, update } from './writes.ts';

/** One thing that happens to the world. What it does depends on its draw and on the state of the world alone. */
export interface Step {
  atMs: number;
  kind: Kind;
  draw: number;
}

type Does = (episode: Episode, random: Random) => string | undefined;

/** A duration of a fault: mostly short, sometimes longer than every bound. */
function lastsMs(random: Random): number {
  const most = random.pick([300, 1_200, 3_000, 6_000, 12_000]);
  return random.between(0.2, 1) * most;
}

const hostOf = (episode: Episode, random: Random) => random.pick(episode.instances).name;

/** Stops processes, and lets them go on. */
function stopFor(episode: Episode, processes: Process[], forMs: number): void {
  for (const process of processes) process.stop();
  episode.world.after(forMs, () => {
    for (const process of processes) process.goOn();
  });
}

function block(episode: Episode, from: string, to: string, forMs: number): void {
  const link = episode.network.link(from, to);
  link.block();
  episode.world.after(forMs, () => {
    link.open();
    episode.reached();
  });
  episode.reached();
}

const redisOf = (episode: Episode, random: Random): RedisServer => random.pick(episode.redis.servers);

function forAWhile(episode: Episode, forMs: number, begin: () => void, end: () => void): void {
  begin();
  episode.world.after(forMs, end);
}

const WRITES = {
  write: (episode, random) => {
    if (episode.world.nowMs < episode.silentUntilMs) return undefined;
    const { postgres, names, world } = episode;
    const { primary } = postgres;
    const statements = drawStatements(
      random,
      primary.folder.data,
      names,
      postgres.sizes.maxPiece,
      world.trueWallMs,
    );
    const takesMs = random.chance(0.6)
      ? 0
      : random.chance(0.8)
        ? random.between(1, 120)
        : random.between(120, 4_000);
    const aborts = random.chance(0.05);
    const isDone = postgres.write(statements, takesMs, aborts);
    return isDone
      ? `${statements.length} statements in ${takesMs.toFixed(0)} ms${aborts ? ', aborted' : ''}`
      : undefined;
  },
  refill: (episode, random) => {
    if (episode.world.nowMs < episode.silentUntilMs) return undefined;
    const { data } = episode.postgres.primary.folder;
    const missing = Array.from({ length: episode.names.hotels }, (_, n) => n).filter(
      (n) => !data.hotels.has(`h${n}`),
    );
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
    episode.reached();
    episode.world.after(forMs, () => {
      episode.postgres.startAgain(server);
      episode.reached();
    });
    return `${forMs.toFixed(0)} ms`;
  },
  'postgres freezes': (episode, random) => {
    const server = episode.postgres.primary;
    const forMs = lastsMs(random);
    server.isFrozen = true;
    episode.reached();
    episode.world.after(forMs, () => {
      server.unfreeze();
      episode.reached();
    });
    return `${forMs.toFixed(0)} ms`;
  },
  'postgres is slow': (episode, random) => {
    const server = episode.postgres.primary;
    const forMs = lastsMs(random);
    server.slowMs = random.pick([30, 150, 500, 1_500]);
    episode.disturb(forMs);
    episode.reached();
    episode.world.after(forMs, () => {
      server.slowMs = 0;
      episode.reached();
      episode.disturb(2_000);
    });
    return `${server.slowMs} ms more, for ${forMs.toFixed(0)} ms`;
  },
  'hotels are locked': (episode, random) => {
    const server = episode.postgres.primary;
    const forMs = Math.min(lastsMs(random), 4_000);
    server.lockedUntilMs = episode.world.nowMs + forMs;
    episode.disturb(forMs);
    return `${forMs.toFixed(0)} ms`;
  },
  'sessions are ended': (episode) => {
    episode.postgres.terminateSessions(episode.postgres.primary);
    episode.disturb(0);
    return '';
  },
  'replica is promoted': (episode, random) => {
    const { postgres } = episode;
    const { replica } = postgres;
    if (replica?.state !== 'up' || replica.isFrozen) return undefined;
    const lost = random.chance(0.7) ? random.whole(0, 4) : 0;
    postgres.setBack(replica, lost);
    const former = postgres.primary;
    postgres.promote();
    episode.reached();
    episode.disturb(0);
    const backMs = lastsMs(random);
    episode.world.after(backMs, () => postgres.startAgain(former));
    return `without its last ${lost} records`;
  },
  'folder is put back': (episode, random) => {
    const { postgres, world } = episode;
    const server = postgres.primary;
    const folder = random.pick(episode.folders);
    if (!folder || server.state !== 'up') return undefined;
    const forMs = Math.min(lastsMs(random), 3_000);
    server.stop();
    postgres.putBack(folder.folder);
    episode.reached();
    world.after(forMs, () => {
      postgres.startAgain(server);
      episode.reached();
    });
    return `of ${folder.atMs.toFixed(0)}, after ${forMs.toFixed(0)} ms`;
  },
  /** A hotel changes twice; the second change is read everywhere, and is lost before it has a position. */
  'future is lost': (episode, random) => {
    const { postgres, world } = episode;
    const { replica, primary } = postgres;
    const id = random.pick(sortedHotels(primary.folder.data))?.id;
    if (id === undefined || primary.state !== 'up' || primary.isFrozen) return undefined;
    // an older folder whose log ends where the present one does cannot be told from a restart: not promised
    if (replica?.state !== 'up' || replica.isFrozen) return undefined;
    const change = (row: HotelRow) => ({ ...row, room_count: random.whole(1, 999) });
    postgres.write([update([id], change)], 0);
    world.after(random.between(30, 60), () => {
      const folder = { ...primary.folder };
      if (!postgres.write([update([id], change)], 0)) return;
      episode.silentUntilMs = world.nowMs + 8_000;
      for (let i = 0; i < 6; i++) world.after(random.between(0, 8), () => episode.clients?.readAt(id));
      world.after(random.between(4, 12), () => {
        if (postgres.primary !== primary || primary.state !== 'up') return;
        primary.stop();
        replica.folder = folder;
        postgres.promote();
        episode.reached();
        episode.disturb(0);
        world.after(random.between(10, 2_000), () => {
          for (const server of postgres.servers) postgres.startAgain(server);
          episode.reached();
        });
      });
    });
    return `${id}, by a promotion`;
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
    forAWhile(
      episode,
      forMs,
      () => {
        if (how === 'pause') replica.isReplayPaused = true;
        else if (how === 'delay') replica.replayDelayMs = random.between(50, 3_000);
        else if (how === 'freeze') replica.isFrozen = true;
        else if (replica.role === 'replica') replica.stop();
      },
      () => {
        replica.isReplayPaused = false;
        replica.replayDelayMs = 5;
        if (how === 'freeze') {
          replica.unfreeze();
          episode.reached();
        }
        if (how === 'stop' && replica.role === 'replica') episode.postgres.startAgain(replica);
        episode.postgres.replay(replica);
      },
    );
    return `${how}, ${forMs.toFixed(0)} ms`;
  },
} satisfies Record<string, Does>;

const NETWORK = {
  'link breaks': (episode, random) => {
    const host = hostOf(episode, random);
    const forMs = lastsMs(random);
    const server = random.chance(0.7) ? episode.postgres.primary.host.name : episode.redis.of(host).name;
    const how = random.pick(['both', 'up', 'down'] as const);
    if (how !== 'down') block(episode, host, server, forMs);
    if (how !== 'up') block(episode, server, host, forMs);
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
    const server = episode.postgres.primary.host.name;
    const forMs = lastsMs(random);
    const delayMs = random.pick([20, 80, 300, 900]);
    const links = [episode.network.link(host, server), episode.network.link(server, host)];
    episode.disturb(forMs, [host]);
    forAWhile(
      episode,
      forMs,
      () => {
        for (const link of links) link.delayMs = delayMs;
        episode.reached();
      },
      () => {
        for (const link of links) link.delayMs = 0.2;
        episode.reached();
        episode.disturb(2_000, [host]);
      },
    );
    return `${host}, ${delayMs} ms, for ${forMs.toFixed(0)} ms`;
  },
} satisfies Record<string, Does>;

const REDIS = {
  'redis stops': (episode, random) => {
    const server = redisOf(episode, random);
    const forMs = lastsMs(random);
    const old = random.chance(0.5) ? server.copy() : undefined;
    server.stop();
    episode.world.after(forMs, () => {
      server.isUp = true;
      server.putBack(old ?? new Map(), true);
    });
    return `${server.name}, ${forMs.toFixed(0)} ms, back ${old ? 'as it was' : 'empty'}`;
  },
  'redis freezes': (episode, random) => {
    const server = redisOf(episode, random);
    const forMs = lastsMs(random);
    forAWhile(
      episode,
      forMs,
      () => {
        server.isFrozen = true;
      },
      () => server.unfreeze(),
    );
    return `${server.name}, ${forMs.toFixed(0)} ms`;
  },
  'redis loses writes': (episode, random) => {
    const server = redisOf(episode, random);
    const forMs = lastsMs(random);
    const share = random.pick([0.3, 1]);
    forAWhile(
      episode,
      forMs,
      () => {
        server.losesWrites = share;
      },
      () => {
        server.losesWrites = 0;
      },
    );
    return `${server.name}, ${share}, ${forMs.toFixed(0)} ms`;
  },
  'redis writes late': (episode, random) => {
    const server = redisOf(episode, random);
    const forMs = lastsMs(random);
    const share = random.pick([0.2, 0.7]);
    forAWhile(
      episode,
      forMs,
      () => {
        server.delaysWrites = share;
      },
      () => {
        server.delaysWrites = 0;
      },
    );
    return `${server.name}, ${share}, ${forMs.toFixed(0)} ms`;
  },
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
    return server.name;
  },
  'redis evicts': (episode, random) => {
    const server = redisOf(episode, random);
    server.evict(random.pick([0.3, 1]));
    return server.name;
  },
  'redis is another': (episode, random) => {
    const host = hostOf(episode, random);
    const server = redisOf(episode, random);
    episode.redis.lead(host, server);
    for (const connection of [...episode.network.connections])
      if (connection.clientHost.name === host && connection.server.startsWith('redis')) connection.reset();
    return `${server.name} for ${host}`;
  },
} satisfies Record<string, Does>;

const PROCESSES = {
  'worker stops': (episode, random) => {
    const instance = random.pick(episode.instances);
    const worker = random.pick(instance.ready);
    if (!worker) return undefined;
    const forMs = lastsMs(random);
    episode.disturb(forMs, [instance.name]);
    stopFor(episode, [worker.process], forMs);
    return `${worker.process.name}, ${forMs.toFixed(0)} ms`;
  },
  'primary stops': (episode, random) => {
    const instance = random.pick(episode.instances);
    if (!instance.primary) return undefined;
    const forMs = lastsMs(random);
    episode.disturb(forMs, [instance.name]);
    stopFor(episode, [instance.primary], forMs);
    return `${instance.name}, ${forMs.toFixed(0)} ms`;
  },
  'instance stops': (episode, random) => {
    const instance = random.pick(episode.instances);
    const forMs = lastsMs(random);
    episode.disturb(forMs, [instance.name]);
    stopFor(episode, instance.processes, forMs);
    return `${instance.name}, ${forMs.toFixed(0)} ms`;
  },
  'machine sleeps': (episode, random) => {
    const instance = random.pick(episode.instances);
    const forMs = lastsMs(random);
    const { host, processes } = instance;
    if (processes.some(({ isStopped }) => isStopped)) return undefined;
    episode.disturb(forMs, [instance.name]);
    for (const process of processes) process.stop();
    episode.world.after(forMs, () => {
      host.sleptMs += forMs;
      episode.checker.woken(instance.name);
      for (const process of processes) process.goOn();
    });
    return `${instance.name}, ${forMs.toFixed(0)} ms`;
  },
  'worker dies': (episode, random) => {
    const instance = random.pick(episode.instances);
    const index = random.whole(0, instance.options.workers - 1);
    if (!instance.workers[index]?.isListening) return undefined;
    instance.killWorker(index);
    return `${instance.name} ${index + 1}`;
  },
  'instance restarts': (episode, random) => {
    const instance = random.pick(episode.instances);
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
    const machine = episode.world.host(host);
    machine.wallAheadMs += byMs;
    episode.checker.clockSteps.set(host, episode.world.nowMs);
    return `${host}, ${byMs} ms`;
  },
} satisfies Record<string, Does>;

const DOES = { ...WRITES, ...POSTGRES, ...NETWORK, ...REDIS, ...PROCESSES, ...CLOCKS };
export type Kind = keyof typeof DOES;

export function take(episode: Episode, step: Step): void {
  const random = new Random(`${episode.world.seed} step ${step.draw}`);
  const does: Does = DOES[step.kind];
  const text = does(episode, random);
  if (text !== undefined) episode.world.trace(`STEP ${step.kind}: ${text}`);
}

/** Draws the steps of an episode. */
export function drawSteps(random: Random, untilMs: number): Step[] {
  const steps: Step[] = [];
  let draw = 0;
  const add = (atMs: number, kind: Kind) => steps.push({ atMs, kind, draw: draw++ });
  const gapMs = random.pick([60, 200, 600]);
  for (let atMs = 300; atMs < untilMs; atMs += random.between(0.1, 2) * gapMs) add(atMs, 'write');
  for (let atMs = 4_000; atMs < untilMs; atMs += random.between(3_000, 9_000)) add(atMs, 'refill');
  const families = [POSTGRES, POSTGRES, NETWORK, REDIS, PROCESSES, CLOCKS].map(
    (family) => Object.keys(family) as Kind[],
  );
  // some episodes attack with few kinds of faults, again and again
  const kinds = random.chance(0.5)
    ? [[...Array.from({ length: 3 }, () => random.pick(random.pick(families))), 'folder is copied' as const]]
    : families.filter(() => random.chance(0.5));
  // quiet times show that the short bounds hold
  const calmMs = random.pick([1_000, 3_000, 10_000]);
  if (kinds.length > 0)
    for (let atMs = 2_500; atMs < untilMs - 9_000; atMs += random.between(0.05, 2) * calmMs)
      add(atMs, random.pick(random.pick(kinds)));
  return steps.sort((a, b) => a.atMs - b.atMs || a.draw - b.draw);
}
