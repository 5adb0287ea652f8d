import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { History, type Snapshot } from './history.ts';
import { openWriter } from './open-writer.ts';
import { snapshotOf } from './snapshot.ts';

/** Expected errors of a writer: a conflict, a lost server, or no prepared transactions. */
const EXPECTED =
  /^(23505|23503|42704|55000|55P03|40P01|57014|57P0\d|25P0\d|53300|08\w{3}|CONNECTION_\w+|CONNECT_TIMEOUT|E[A-Z]+)$/;

const LOST = Object.assign(new Error('the connection was lost'), { code: 'CONNECTION_CLOSED' });

/** Rejection by the database that a writer with rights on the table must never see. */
export class WriterRejected extends Error {
  override name = 'WriterRejected';
}

type Work = (sql: Sql) => Promise<unknown>;

/** Database under test for its writers, and its history. */
export class Database {
  readonly history: History;
  readonly name: string;
  /** address for the superuser; changes when another server takes over */
  url: string;
  sql: Sql;
  /** time since which the result of some transaction is uncertain */
  #uncertainSinceMs: number | undefined;
  /** serializes commits, so that the changes of each are known */
  #running: Promise<unknown> = Promise.resolve();
  /** blocks writers while the server is being broken on purpose */
  #available = Promise.withResolvers<void>();
  #isOpen = true;

  private constructor(url: string, sql: Sql, name: string, start: Snapshot) {
    this.url = url;
    this.sql = sql;
    this.name = name;
    this.history = new History(start);
    this.#available.resolve();
  }

  /** Opens the database of this name at `url`. */
  static async open(url: string, name: string): Promise<Database> {
    const sql = openWriter(url);
    return new Database(url, sql, name, await snapshotOf(sql));
  }

  /** Switches to another server. */
  moveTo(url: string): void {
    this.url = url;
    this.sql = openWriter(url);
  }

  get isUncertain(): boolean {
    return this.#uncertainSinceMs !== undefined;
  }

  /** False while writers are blocked. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Blocks new writers; those in progress may fail. `reopen` detects what is lost from now on. */
  close(): void {
    this.#available = Promise.withResolvers<void>();
    this.#isOpen = false;
    this.#uncertainSinceMs ??= performance.now();
  }

  /** Rolls back what is prepared, after `close`: the database could not be copied or renamed. */
  async rollbackPrepared(): Promise<void> {
    await this.#exclusively(async () => {
      const prepared = await this.sql`select gid from pg_prepared_xacts where database = current_database()`;
      for (const { gid } of prepared) await this.sql.unsafe(`rollback prepared '${gid}'`);
    });
  }

  /** Reads the database again and unblocks writers. */
  async reopen(): Promise<void> {
    await this.resync();
    this.#isOpen = true;
    this.#available.resolve();
  }

  /** Updates the history from the database after uncertain transactions. */
  async resync(): Promise<void> {
    await this.#exclusively(async () => {
      if (this.#uncertainSinceMs === undefined) return;
      const found = await retried(() => snapshotOf(this.sql));
      this.history.resync(found, this.#uncertainSinceMs, performance.now());
      this.#uncertainSinceMs = undefined;
    });
  }

  /**
   * Runs `work` in a transaction on a separate connection and ends it as requested. An expected error rolls it back.
   * Throws `WriterRejected` for any other.
   */
  async transaction(
    work: Work,
    end: 'commit' | 'rollback' | 'prepare' = 'commit',
    holdMs = 0,
  ): Promise<void> {
    await this.#connected(async (sql, decide, lost) => {
      await sql`set local lock_timeout = 1500`;
      await Promise.race([work(sql), lost]);
      if (end !== 'prepare') await sleep(holdMs);
      if (end === 'rollback') return;
      if (end === 'commit')
        return this.#exclusively(async () => decide('commit', await this.#changesOf(sql)));
      const name = `t${Math.random()}`;
      const changes = await this.#exclusively(async () => {
        // nothing may prevent a copy of the database that is closed
        if (this.isUncertain) throw LOST;
        const found = await this.#changesOf(sql);
        await sql.unsafe(`prepare transaction '${name}'`);
        return found;
      });
      await sleep(holdMs);
      await this.#exclusively(() => decide(`commit prepared '${name}'`, changes));
    });
  }

  /** Does the same for `work` that locks whole tables, which would block the reads of a concurrent commit. */
  async lockingTransaction(work: Work): Promise<void> {
    await this.#connected((sql, decide, lost) =>
      this.#exclusively(async () => {
        await sql`set local lock_timeout = 300`;
        await Promise.race([work(sql), lost]);
        await decide('commit', await this.#changesOf(sql));
      }),
    );
  }

  /**
   * Begins a transaction; `decide` ends it and notes the result. `lost` rejects with the connection: a COPY of postgres.js
   * never settles then.
   */
  async #connected(
    work: (
      sql: Sql,
      decide: (statement: string, changes: Snapshot) => Promise<void>,
      lost: Promise<never>,
    ) => Promise<void>,
  ): Promise<void> {
    await this.#available.promise;
    let isLost = false;
    const losing = Promise.withResolvers<never>();
    losing.promise.catch(() => {});
    const sql = openWriter(this.url, 1, () => {
      isLost = true;
      losing.reject(LOST);
      // otherwise the client would open another connection, without the transaction
      void sql.end({ timeout: 0 });
    });
    const decide = async (statement: string, changes: Snapshot) => {
      if (isLost || this.isUncertain) throw LOST;
      await this.#decide(changes, async () => {
        await sql.unsafe(statement);
        if (isLost) throw LOST;
      });
    };
    try {
      await sql`begin`;
      await work(sql, decide, losing.promise);
    } catch (error) {
      this.#expect(error as Error & { code?: string });
    } finally {
      await sql.end({ timeout: 0 });
    }
  }

  /** Returns the changes of the transaction, as the superuser. */
  async #changesOf(sql: Sql): Promise<Snapshot> {
    await sql.unsafe('reset role; reset search_path; reset session_replication_role');
    return this.history.changesTo(await snapshotOf(sql));
  }

  /** Notes the result of `commit`; `changes` may be visible from its beginning. */
  async #decide(changes: Snapshot, commit: () => Promise<void>): Promise<void> {
    const beganMs = performance.now();
    const planned = this.history.plan(changes, beganMs);
    try {
      await commit();
      this.history.confirm(planned, performance.now());
    } catch (error) {
      // PostgreSQL has reported a rollback
      if ((error as { severity?: string }).severity === 'ERROR') this.history.cancel(planned);
      else this.#uncertainSinceMs ??= beganMs;
      throw error;
    }
  }

  #expect(error: Error & { code?: string }): void {
    if (EXPECTED.test(error.code ?? '')) return;
    throw new WriterRejected(`${error.message} (${error.code})`);
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#running.then(work);
    this.#running = done.catch(() => {});
    return done;
  }
}

/** Repeats work that another fault prevents: a copy of the database allows no connections, for ten seconds on a busy disk. */
async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === 300) throw error;
      await sleep(100);
    }
  }
}
