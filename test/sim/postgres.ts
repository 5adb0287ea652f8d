import type { HotelRow } from '../../src/hotels/row.ts';
import { type Connection, type Network, Server } from './network.ts';
import type { Random } from './random.ts';
import {
  type ApiKey,
  commitDrain,
  type Data,
  type Drain,
  newHistory,
  type QueueRow,
  type SequencerContext,
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

/** Thrown by a statement: the server answers with this error. */
export class Fault extends Error {
  readonly code: string;
  readonly severity = 'ERROR';

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** What a server answers to one message. */
export type Answer = { rows: unknown } | { fault: Fault };

type Work = (server: PgServer) => object[] | object[][];

const LOCK_TIMEOUT_MS = 5_000;
/** Of queries: half of DATABASE_TIMEOUT_MS. */
const READ_LOCK_TIMEOUT_MS = 250;
/** Time by which some queries are late: with it they still end before their deadline. */
const QUERY_LATE_MS = 320;

/** State of a data folder. */
export interface Folder {
  data: Data;
  nextXid: number;
  latestCompleted: number;
}

/** A PostgreSQL server, primary or replica. */
export class PgServer extends Server {
  readonly host: Host;
  readonly cluster: PgCluster;
  folder: Folder;
  timeline = 1;
  role: 'primary' | 'replica';
  /** which it has in common with its replicas alone */
  systemId: number;
  readonly number: number;
  /** a server may have several: `create database … template` makes another */
  databaseId = 1;
  /** distinguishes servers that start at the same time */
  startNumber: number;
  /** it runs, and rejects connections until it has recovered */
  isStarting = false;
  startedMs = 0;
  /** a former primary that goes on: other systems write to the present one */
  rejectsWrites = false;
  /** share of the queries that take long, before or after their snapshot, while polls do not */
  lateShare: number;
  /** until then no statement can read hotels: a lock */
  lockedUntilMs = 0;
  readonly inProgress = new Set<number>();
  /** of the sequencer's table */
  #lock: { waiting: (() => void)[]; isHeld: boolean } = { waiting: [], isHeld: false };
  /** a replica: index in the write-ahead log up to which it has replayed */
  replayed = 0;
  isReplayPaused = false;
  replayDelayMs = 5;

  constructor(cluster: PgCluster, role: 'primary' | 'replica', folder: Folder, systemId?: number) {
    const number = cluster.nextServer++;
    super(`pg${number}`);
    this.cluster = cluster;
    this.number = number;
    this.startNumber = number;
    this.systemId = systemId ?? number;
    this.host = cluster.world.host(this.name);
    this.role = role;
    this.folder = folder;
    this.startedMs = cluster.world.nowMs;
    this.lateShare = cluster.lateShare;
  }

  override get rejection(): string {
    return this.isUp && this.isStarting ? '57P03' : super.rejection;
  }

  get wallMs(): number {
    return this.host.wallMs();
  }

  /** `SERVER` of src/postgres/origin.ts */
  get serverText(): string | null {
    if (this.role === 'replica') return null;
    const { world } = this.cluster;
    const startedUs = Math.floor(world.beganWallMs + this.startedMs) * 1_000 + this.startNumber;
    return `${startedUs} base/${this.databaseId}`;
  }

  get place(): string {
    return `${this.databaseId} ${this.systemId} ${this.timeline}`;
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

  /** Ends all sessions and transactions. */
  override stop(): void {
    super.stop();
    this.inProgress.clear();
    this.#lock = { waiting: [], isHeld: false };
    this.cluster.onReach();
  }

  /** Begins to run; it rejects connections for a while. */
  start(recoversMs = 0): void {
    const { world } = this.cluster;
    this.rejectsWrites = false;
    this.isUp = true;
    this.isStarting = recoversMs > 0;
    this.startedMs = world.nowMs;
    this.folder.latestCompleted = Math.max(this.folder.latestCompleted, this.folder.nextXid - 1);
    this.cluster.onReach();
    const { run } = this;
    if (this.isStarting)
      world.after(recoversMs, () => {
        if (run !== this.run) return;
        this.isStarting = false;
        this.cluster.onReach();
      });
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
    const isPoll = text.includes('hotel_api_poll(');
    const timeMs = () =>
      random.between(0.05, random.chance(0.03) ? 25 : 1) +
      random.between(0, this.slowMs) +
      (!isPoll && random.chance(this.lateShare) ? random.between(0, QUERY_LATE_MS) : 0);
    const readNow = () => {
      try {
        const rows = work(this);
        serve(timeMs() / 2, () => reply({ rows }));
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        reply({ fault: error });
      }
    };
    const read = () =>
      serve(timeMs() / 2, () =>
        /\bfrom hotels\b/.test(text) ? this.#unlocked(run, reply, readNow) : readNow(),
      );
    const write = (drainOf: (context: SequencerContext) => Drain | undefined, then: () => void) =>
      this.#withLock(run, reply, (done) =>
        serve(timeMs(), () => {
          const shown = this.snapshot;
          const xid = this.beginTransaction();
          const drain = drainOf(this.contextOf(shown, xid));
          serve(timeMs(), () => {
            this.endTransaction(xid, drain && commitDrain(this.folder.data, drain));
            done();
            then();
          });
        }),
      );
    const begin = /begin_history\('([^']*)', (\d+), (\d+)\)/.exec(text);
    const answerNothing = () => reply({ rows: [] });
    if (text.includes('hotel_api_sequence()')) write(sequence, read);
    else if (begin) write((context) => beginHistory(context, begin), answerNothing);
    else read();
  }

  /** What a transaction of the sequencer sees. */
  contextOf(shown: Snapshot, xid: number): SequencerContext {
    const { cluster, folder, wallMs: nowMs, place } = this;
    return { data: folder.data, shown, xid, nowMs, place, sizes: cluster.sizes, draw: () => cluster.draw() };
  }

  #unlocked(run: number, reply: (answer: Answer) => void, then: () => void): void {
    const { world } = this.cluster;
    const endsMs = world.nowMs + READ_LOCK_TIMEOUT_MS;
    const wait = () => {
      if (run !== this.run) return;
      if (world.nowMs >= this.lockedUntilMs) then();
      else if (world.nowMs < endsMs) world.at(Math.min(this.lockedUntilMs + 0.1, endsMs), wait);
      else reply({ fault: new Fault('55P03', 'canceling statement due to lock timeout') });
    };
    wait();
  }

  /** Runs a transaction of the sequencer when it has the lock. */
  #withLock(run: number, reply: (answer: Answer) => void, work: (done: () => void) => void): void {
    if (this.role === 'replica') {
      reply({ fault: new Fault('25006', 'read-only') });
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
      reply({ fault: new Fault('55P03', 'lock timeout') });
    });
  }
}

/** `hotel_api_begin_history`. */
function beginHistory(context: SequencerContext, [, known, after, transaction]: string[]): Drain | undefined {
  const { log } = context.data;
  const { history, logFrom } = log.at(-1)!.state!;
  const isThere = log.some((row) => row.position === Number(after) && `${row.transaction}` === transaction);
  return history === known && Number(after) > logFrom && !isThere ? newHistory(context) : undefined;
}

/** One primary and its replica, reached by names that lead to the present server. */
export class PgCluster {
  readonly world: World;
  readonly network: Network;
  readonly random: Random;
  readonly sizes: Sizes;
  servers: PgServer[] = [];
  nextServer = 0;
  primary: PgServer;
  /** usual share of late queries */
  readonly lateShare: number;
  /** machines from which the name of the primary leads elsewhere */
  readonly leads = new Map<string, PgServer>();
  /** called with what the primary shows from now on */
  onTruth: (data: Data, before: Data | undefined) => void = () => {};
  /** called when it may have changed who reaches the primary */
  onReach: () => void = () => {};
  #wal: Folder[] = [];
  #draws = 0;
  #number = 1;

  constructor(world: World, network: Network, sizes: Sizes, hotels: HotelRow[], keys: ApiKey[]) {
    this.world = world;
    this.network = network;
    this.random = world.randomOf('postgres');
    this.sizes = sizes;
    this.lateShare = this.random.pick([0.002, 0.05]);
    const empty: Data = {
      ...{ hotels: new Map(hotels.map((hotel) => [hotel.id, hotel])), queue: [], log: [], secret: '' },
      ...{ keys: new Map(keys.map((key) => [key.sha256, key])), collections: new Set(), members: new Map() },
    };
    const folder: Folder = { data: empty, nextXid: 1_000, latestCompleted: 999 };
    this.primary = new PgServer(this, 'primary', folder);
    this.servers.push(this.primary);
    const xid = this.primary.beginTransaction();
    const context = this.primary.contextOf(this.primary.snapshot, xid);
    this.primary.endTransaction(xid, commitDrain(empty, newHistory(context)));
  }

  addReplica(): void {
    const { folder, systemId, timeline } = this.primary;
    const replica = new PgServer(this, 'replica', { ...folder }, systemId);
    replica.timeline = timeline;
    replica.replayed = this.#wal.length;
    this.servers.push(replica);
  }

  get replica(): PgServer | undefined {
    return this.servers.find(({ role }) => role === 'replica');
  }

  /** Returns the server that a name leads to from a machine at present. */
  resolve(name: string, host: string): PgServer | undefined {
    return name === 'primary' ? (this.leads.get(host) ?? this.primary) : this.replica;
  }

  draw(): string {
    return `${this.world.seed.length}-${this.#draws++}-${Math.floor(this.random.next() * 1e9)}`;
  }

  nextNumber(): number {
    return this.#number++;
  }

  committed(server: PgServer, before: Data | undefined): void {
    if (server !== this.primary) return;
    this.#wal.push({ ...server.folder });
    for (const replica of this.servers)
      if (replica.role === 'replica')
        this.world.after(replica.replayDelayMs * this.random.between(0.3, 2), () => this.replay(replica));
    this.onTruth(server.folder.data, before);
  }

  /** Lets a replica replay all that it lacks. */
  replay(replica: PgServer): void {
    if (replica.role !== 'replica' || replica.isReplayPaused || replica.isFrozen || !replica.isUp) return;
    if (!this.network.isOpen(this.primary.host.name, replica.host.name)) return;
    if (this.#wal.length > replica.replayed) this.#replayTo(replica, this.#wal.length);
  }

  #replayTo(replica: PgServer, index: number): void {
    replica.replayed = index;
    replica.folder = { ...this.#wal[index - 1]! };
  }

  /** Lets a replica hold what the primary had, less its last records. */
  setBack(replica: PgServer, records: number): void {
    this.#replayTo(replica, Math.max(1, Math.min(replica.replayed, this.#wal.length) - records));
  }

  /** Promotes the replica. The former primary is gone, but for machines whose address still leads to it. */
  promote(misled: readonly string[]): void {
    const { primary: former, replica } = this;
    if (!replica?.isUp) return;
    if (misled.length === 0) {
      former.stop();
      former.role = 'replica';
    } else {
      former.rejectsWrites = true;
      for (const host of misled) this.leads.set(host, former);
      for (const connection of former.connections)
        if (!misled.includes(connection.clientHost.name)) connection.reset();
    }
    const before = former.folder.data;
    this.primary = replica;
    replica.role = 'primary';
    replica.timeline++;
    replica.endSessions();
    // transactions of the future that is lost have left no trace
    this.#begin({ ...replica.folder, latestCompleted: replica.folder.nextXid - 1 }, before);
  }

  /** Brings a server back: as the primary with its data, or as a replica with those of the primary. */
  startAgain(server: PgServer, afterMs = 0, recoversMs = 0): void {
    this.world.after(afterMs, () => {
      if (server.isUp || !this.servers.includes(server)) return;
      if (server !== this.primary) {
        server.role = 'replica';
        server.folder = { ...this.primary.folder };
        server.timeline = this.primary.timeline;
        server.replayed = this.#wal.length;
      }
      server.start(recoversMs);
    });
  }

  /** Puts an older data folder back while the primary is down; replicas are made anew from it. */
  putBack(folder: Folder): void {
    const before = this.primary.folder.data;
    // rows of two futures with the same position and transaction cannot be told apart: docs/guarantees.md says so
    const nextXid = folder.nextXid + this.random.whole(1, 50);
    this.#begin({ ...folder, nextXid, latestCompleted: nextXid - 1 }, before);
    for (const server of this.servers) {
      if (server === this.primary) continue;
      server.stop();
      server.replayed = 1;
      server.folder = { ...this.primary.folder };
      this.startAgain(server);
    }
  }

  /** Lets the names lead to another database: a copy of a data folder, or a dump that was restored. */
  replaceBy(folder: Folder, isDump: boolean, isOfSameServer = false): void {
    const { primary: former } = this;
    const before = former.folder.data;
    const hasReplica = this.servers.length > 1;
    for (const server of this.servers) server.stop();
    this.primary = this.copyOf(folder, isDump, isOfSameServer ? former : undefined);
    for (const [host, server] of this.leads) if (this.servers.includes(server)) this.leads.delete(host);
    this.servers = [this.primary];
    this.#begin(this.primary.folder, before);
    if (hasReplica) this.addReplica();
  }

  /** Returns another database with a copy of a data folder, or with its dump: on another server, or beside one. */
  copyOf({ data, nextXid }: Folder, isDump: boolean, beside?: PgServer): PgServer {
    // a restore writes the rows anew, and the transactions of another server have other numbers
    const next = beside ? beside.folder.nextXid + 1 : isDump ? this.random.whole(500, 3_000) : nextXid;
    const log = isDump ? data.log.map((row) => ({ ...row, xmin: next - 1 })) : data.log;
    const folder = { data: { ...data, log }, nextXid: next, latestCompleted: next - 1 };
    const copy = new PgServer(this, 'primary', folder, beside?.systemId);
    if (beside) {
      const { timeline, startedMs, startNumber } = beside;
      Object.assign(copy, { timeline, startedMs, startNumber, databaseId: copy.number + 1 });
    }
    return copy;
  }

  /** Continues with what the primary holds now. */
  #begin(folder: Folder, before: Data): void {
    this.primary.folder = folder;
    this.#wal = [{ ...folder }];
    for (const server of this.servers) server.replayed = 0;
    this.onReach();
    this.onTruth(folder.data, before);
  }

  /**
   * Runs a transaction of another system: statements at once, the commit after `takesMs`. Its id is older than those of
   * transactions that begin meanwhile and commit before it. Returns false if there is no server.
   */
  write(statements: Statement[], takesMs: number, aborts = false, server = this.primary): boolean {
    if (!server.isUp || server.isStarting || server.isFrozen) return false;
    const xid = server.beginTransaction();
    const { run } = server;
    const atMs = server.wallMs;
    const commit = () => {
      if (run !== server.run) return;
      if (aborts || server.rejectsWrites) return server.endTransaction(xid);
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
