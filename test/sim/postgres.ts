import type { HotelRow } from '../../src/hotels/row.ts';
import type { Connection, Network } from './network.ts';
import type { Random } from './random.ts';
import {
  type ApiKey,
  commitDrain,
  type Data,
  newHistory,
  type QueueRow,
  type Sizes,
  type Snapshot,
  sequence,
} from './sequencer.ts';
import type { Host, World } from './world.ts';

/** A change of one statement: the tables after it, and the rows of the queue that its triggers write. */
export type Statement = (data: Data) => {
  data: Data;
  queued: Omit<QueueRow, 'transaction' | 'number' | 'atMs'>[];
};

/** Error of a statement that its constraints reject. */
export class Rejected extends Error {}

export interface SqlFault {
  message: string;
  code: string;
  severity?: string;
}

/** What a server answers to one message. */
export type Answer = { rows: unknown } | { fault: SqlFault };

type Work = (server: PgServer) => object[] | object[][];

const LOCK_TIMEOUT_MS = 5_000;
const STARTING = { message: 'the database system is starting up', code: '57P03', severity: 'FATAL' };

/** State of a data folder. */
export interface Folder {
  data: Data;
  nextXid: number;
  latestCompleted: number;
}

/** A PostgreSQL server, primary or replica. */
export class PgServer {
  readonly host: Host;
  readonly cluster: PgCluster;
  folder: Folder;
  timeline: number;
  role: 'primary' | 'replica';
  state: 'up' | 'starting' | 'down' = 'up';
  isFrozen = false;
  startedMs = 0;
  /** time that a statement takes beyond the usual */
  slowMs = 0;
  /** until then no statement can read hotels: a lock */
  lockedUntilMs = 0;
  readonly inProgress = new Set<number>();
  readonly connections = new Set<Connection>();
  #frozen: (() => void)[] = [];
  /** of the sequencer's table */
  #lock: { waiting: (() => void)[]; isHeld: boolean } = { waiting: [], isHeld: false };
  /** number of the run of this server: what began in another one is lost */
  run = 0;
  /** a replica: index in the write-ahead log up to which it has replayed */
  replayed = 0;
  isReplayPaused = false;
  replayDelayMs = 5;

  constructor(cluster: PgCluster, host: Host, role: 'primary' | 'replica', folder: Folder) {
    this.cluster = cluster;
    this.host = host;
    this.role = role;
    this.folder = folder;
    this.timeline = 1;
    this.startedMs = cluster.world.nowMs;
  }

  get wallMs(): number {
    return this.cluster.world.trueWallMs + this.host.wallAheadMs;
  }

  get serverStarted(): string {
    const { servers, world } = this.cluster;
    return String(Math.floor(world.beganWallMs + this.startedMs) * 1_000 + servers.indexOf(this));
  }

  get place(): string {
    return `1 ${this.cluster.systemId} ${this.timeline}`;
  }

  get snapshot(): Snapshot {
    const { latestCompleted } = this.folder;
    const xmax = latestCompleted + 1;
    const xip = [...this.inProgress].filter((xid) => xid < xmax).sort((a, b) => a - b);
    return { xmin: xip[0] ?? xmax, xmax, xip };
  }

  beginTransaction(): number {
    const xid = this.folder.nextXid++;
    this.inProgress.add(xid);
    return xid;
  }

  endTransaction(xid: number, data?: Data): void {
    this.inProgress.delete(xid);
    this.folder.latestCompleted = Math.max(this.folder.latestCompleted, xid);
    if (!data) return;
    const before = this.folder.data;
    this.folder.data = data;
    this.cluster.committed(this, before);
  }

  /** Does something as soon as the server runs. */
  whenRunning(work: () => void): void {
    if (this.isFrozen) this.#frozen.push(work);
    else work();
  }

  unfreeze(): void {
    this.isFrozen = false;
    for (const work of this.#frozen.splice(0)) work();
  }

  /** Ends all sessions and transactions. */
  stop(): void {
    this.state = 'down';
    this.run++;
    this.inProgress.clear();
    this.#frozen = [];
    this.isFrozen = false;
    this.#lock = { waiting: [], isHeld: false };
    for (const connection of this.connections) connection.reset();
    this.connections.clear();
  }

  start(): void {
    this.state = 'up';
    this.startedMs = this.cluster.world.nowMs;
    this.folder.latestCompleted = Math.max(this.folder.latestCompleted, this.folder.nextXid - 1);
  }

  /** Executes a message of a client, and answers over its connection. */
  execute(connection: Connection, text: string, work: Work, answer: (answer: Answer) => void): void {
    const { world } = this.cluster;
    const random = this.cluster.random;
    const { run } = this;
    // a statement ends whatever has become of its client
    const isOver = () => run !== this.run;
    const reply = (result: Answer) => {
      if (!isOver()) connection.down(() => answer(result));
    };
    const serve = (first: number, then: () => void) =>
      world.after(first, () => this.whenRunning(() => !isOver() && then()));
    const timeMs = () => random.between(0.05, random.chance(0.03) ? 25 : 1) + random.between(0, this.slowMs);
    const readNow = () => {
      try {
        const rows = work(this);
        serve(timeMs() / 2, () => reply({ rows }));
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        reply({ fault: error.fault });
      }
    };
    const read = () =>
      serve(timeMs() / 2, () => (/\bhotels\b/.test(text) ? this.#unlocked(run, readNow) : readNow()));
    if (text.includes('hotel_api_sequence()'))
      this.#withLock(run, reply, (done) => this.#sequence(serve, timeMs, done, read));
    else if (text.includes('hotel_api_begin_history('))
      this.#withLock(run, reply, (done) =>
        this.#beginHistory(text, serve, timeMs, done, () => reply({ rows: [] })),
      );
    else read();
  }

  #unlocked(run: number, then: () => void): void {
    const { world } = this.cluster;
    if (world.nowMs >= this.lockedUntilMs) {
      then();
      return;
    }
    world.at(this.lockedUntilMs + 0.1, () => {
      if (run === this.run) this.#unlocked(run, then);
    });
  }

  /** Runs a transaction of the sequencer when it has the lock. */
  #withLock(run: number, reply: (answer: Answer) => void, work: (done: () => void) => void): void {
    if (this.role === 'replica') {
      reply({ fault: { message: 'read-only', code: '25006', severity: 'ERROR' } });
      return;
    }
    const lock = this.#lock;
    const { world } = this.cluster;
    let isLate = false;
    const take = () => {
      if (isLate || run !== this.run) return next();
      lock.isHeld = true;
      work(() => {
        lock.isHeld = false;
        next();
      });
    };
    const next = () => {
      if (!lock.isHeld) lock.waiting.shift()?.();
    };
    if (!lock.isHeld) {
      take();
      return;
    }
    lock.waiting.push(take);
    world.after(LOCK_TIMEOUT_MS, () => {
      const at = lock.waiting.indexOf(take);
      if (at < 0 || run !== this.run) return;
      isLate = true;
      lock.waiting.splice(at, 1);
      reply({ fault: { message: 'lock timeout', code: '55P03', severity: 'ERROR' } });
    });
  }

  #sequence(
    serve: (ms: number, then: () => void) => void,
    timeMs: () => number,
    done: () => void,
    then: () => void,
  ): void {
    serve(timeMs(), () => {
      const { cluster } = this;
      const shown = this.snapshot;
      const xid = this.beginTransaction();
      const { data } = this.folder;
      const context = {
        ...{ data, shown, xid, nowMs: this.wallMs, place: this.place, sizes: cluster.sizes },
        draw: () => cluster.draw(),
      };
      const drain = sequence(context);
      serve(timeMs(), () => {
        this.endTransaction(xid, drain && commitDrain(this.folder.data, drain));
        done();
        then();
      });
    });
  }

  #beginHistory(
    text: string,
    serve: (ms: number, then: () => void) => void,
    timeMs: () => number,
    done: () => void,
    then: () => void,
  ): void {
    const [, known, after, transaction] = /begin_history\('([^']*)', (\d+), (\d+)\)/.exec(text)!;
    serve(timeMs(), () => {
      const { data } = this.folder;
      const { state } = data.log.at(-1)!;
      const isThere = data.log.some(
        (row) => row.position === Number(after) && String(row.transaction) === transaction,
      );
      const isLost = state!.history === known && Number(after) > state!.logFrom && !isThere;
      const shown = this.snapshot;
      const xid = this.beginTransaction();
      const { cluster } = this;
      const context = {
        ...{ data, shown, xid, nowMs: this.wallMs, place: this.place, sizes: cluster.sizes },
        draw: () => cluster.draw(),
      };
      const drain = isLost ? newHistory(context) : undefined;
      serve(timeMs(), () => {
        this.endTransaction(xid, drain && commitDrain(this.folder.data, drain));
        done();
        then();
      });
    });
  }
}

/** Thrown by a statement: the server answers with this error. */
export class Fault extends Error {
  readonly fault: SqlFault;

  constructor(fault: SqlFault) {
    super(fault.message);
    this.fault = fault;
  }
}

interface WalRecord {
  data: Data;
  nextXid: number;
  latestCompleted: number;
}

/** One primary and its replicas, reached by names that lead to the present server. */
export class PgCluster {
  readonly world: World;
  readonly network: Network;
  readonly random: Random;
  readonly sizes: Sizes;
  readonly servers: PgServer[] = [];
  systemId = 1;
  primary: PgServer;
  /** called with what the primary shows from now on */
  onTruth: (data: Data, before: Data | undefined) => void = () => {};
  #wal: WalRecord[] = [];
  #draws = 0;
  #number = 1;

  constructor(world: World, network: Network, sizes: Sizes, hotels: HotelRow[], keys: ApiKey[]) {
    this.world = world;
    this.network = network;
    this.random = world.randomOf('postgres');
    this.sizes = sizes;
    const empty: Data = {
      ...{ hotels: new Map(hotels.map((hotel) => [hotel.id, hotel])), queue: [], log: [], secret: '' },
      ...{ keys: new Map(keys.map((key) => [key.sha256, key])), collections: new Set(), members: new Map() },
    };
    const folder: Folder = { data: empty, nextXid: 1_000, latestCompleted: 999 };
    this.primary = new PgServer(this, world.host('pg0'), 'primary', folder);
    this.servers.push(this.primary);
    const xid = this.primary.beginTransaction();
    const context = {
      ...{ data: empty, shown: this.primary.snapshot, xid, nowMs: this.primary.wallMs, sizes },
      ...{ place: this.primary.place, draw: () => this.draw() },
    };
    this.primary.endTransaction(xid, commitDrain(empty, newHistory(context)));
  }

  addReplica(): PgServer {
    const { folder } = this.primary;
    const replica = new PgServer(this, this.world.host(`pg${this.servers.length}`), 'replica', { ...folder });
    replica.replayed = this.#wal.length;
    this.servers.push(replica);
    return replica;
  }

  get replica(): PgServer | undefined {
    return this.servers.find((server) => server !== this.primary);
  }

  /** Returns the server that a name leads to at present. */
  resolve(name: string): PgServer | undefined {
    return name === 'primary' ? this.primary : this.replica;
  }

  draw(): string {
    return `${this.world.seed.length}-${this.#draws++}-${Math.floor(this.random.next() * 1e9)}`;
  }

  nextNumber(): number {
    return this.#number++;
  }

  committed(server: PgServer, before: Data | undefined): void {
    if (server !== this.primary) return;
    const { data, nextXid, latestCompleted } = server.folder;
    this.#wal.push({ data, nextXid, latestCompleted });
    for (const replica of this.servers)
      if (replica.role === 'replica')
        this.world.after(replica.replayDelayMs * this.random.between(0.3, 2), () => this.replay(replica));
    this.onTruth(data, before);
  }

  /** Lets a replica replay one record, or all that it lacks. */
  replay(replica: PgServer): void {
    if (replica.role !== 'replica' || replica.isReplayPaused || replica.isFrozen || replica.state !== 'up')
      return;
    if (!this.network.isOpen(this.primary.host.name, replica.host.name)) return;
    const due = Math.max(replica.replayed, this.#wal.length - 0);
    if (due > replica.replayed) this.#replayTo(replica, due);
  }

  #replayTo(replica: PgServer, index: number): void {
    const record = this.#wal[index - 1]!;
    replica.replayed = index;
    replica.folder = { ...record };
  }

  /** Lets a replica hold what the primary had, less its last records. */
  setBack(replica: PgServer, records: number): void {
    this.#replayTo(replica, Math.max(1, Math.min(replica.replayed, this.#wal.length) - records));
  }

  /** Promotes the replica; the former primary is gone, and comes back as a replica later. */
  promote(): void {
    const former = this.primary;
    const { replica } = this;
    if (replica?.state !== 'up') return;
    if (former.state !== 'down') former.stop();
    const before = former.folder.data;
    this.primary = replica;
    replica.role = 'primary';
    replica.timeline++;
    former.role = 'replica';
    // transactions of the future that is lost have left no trace
    replica.folder = { ...replica.folder, latestCompleted: replica.folder.nextXid - 1 };
    this.#wal = [{ ...replica.folder }];
    for (const server of this.servers) server.replayed = 0;
    for (const connection of replica.connections) connection.reset();
    replica.connections.clear();
    this.onTruth(replica.folder.data, before);
  }

  /** Brings a server back: as the primary with its data, or as a replica with those of the primary. */
  startAgain(server: PgServer): void {
    if (server.state === 'up') return;
    if (server !== this.primary) {
      server.folder = { ...this.primary.folder };
      server.timeline = this.primary.timeline;
      server.replayed = this.#wal.length;
    }
    server.start();
  }

  /** Puts an older data folder back while the primary is down; replicas are made anew from it. */
  putBack(folder: Folder): void {
    const before = this.primary.folder.data;
    this.primary.folder = { ...folder, latestCompleted: folder.nextXid - 1 };
    this.#wal = [{ ...this.primary.folder }];
    for (const server of this.servers) {
      server.replayed = 1;
      if (server === this.primary) continue;
      server.stop();
      server.folder = { ...this.primary.folder };
      server.start();
    }
    this.onTruth(this.primary.folder.data, before);
  }

  /** Accepts a connection; returns the error of a server that does not. */
  accept(server: PgServer, connection: Connection): SqlFault | 'refused' | undefined {
    if (server.state === 'down') return 'refused';
    if (server.state === 'starting') return STARTING;
    server.connections.add(connection);
    return undefined;
  }

  /** Ends all sessions of a server, as an operator does. */
  terminateSessions(server: PgServer): void {
    for (const connection of server.connections) connection.reset();
    server.connections.clear();
  }

  /**
   * Runs a transaction of another system: statements at once, the commit after `takesMs`. Its id is older than those of
   * transactions that begin meanwhile and commit before it. Returns false if there is no server.
   */
  write(statements: Statement[], takesMs: number, aborts = false): boolean {
    const server = this.primary;
    if (server.state !== 'up' || server.isFrozen) return false;
    const xid = server.beginTransaction();
    const { run } = server;
    const atMs = server.wallMs;
    const commit = () => {
      if (run !== server.run) return;
      if (aborts) return server.endTransaction(xid);
      try {
        let { data } = server.folder;
        const rows: QueueRow[] = [];
        for (const statement of statements) {
          const { data: after, queued } = statement(data);
          data = after;
          for (const row of queued) rows.push({ ...row, transaction: xid, number: this.nextNumber(), atMs });
        }
        server.endTransaction(xid, { ...data, queue: [...data.queue, ...rows] });
      } catch (error) {
        if (!(error instanceof Rejected)) throw error;
        server.endTransaction(xid);
      }
    };
    const due = () => server.whenRunning(commit);
    if (takesMs <= 0) due();
    else this.world.after(takesMs, due);
    return true;
  }
}
