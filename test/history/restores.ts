import { execFile } from 'node:child_process';
import { rename, rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Sql } from 'postgres';
import type { OwnServer } from '../support/own-server.ts';
import { FIRING } from '../support/triggers.ts';
import type { Database } from './database.ts';
import type { System } from './system.ts';

const run = promisify(execFile);

const MAX_ATTEMPTS = 10;

/** Codes of a lost connection: of PostgreSQL, of the driver, and of the system. */
const LOST = /^(57P01|08\w{3}|CONNECTION_\w+|E[A-Z]+)$/;

/** Repeats work whose connection an earlier fault has ended. */
async function onLivingConnection<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !LOST.test((error as { code?: string }).code ?? '')) throw error;
    }
  }
}

/** Copies all tables and sequences, like a dump. */
export function saveTables(sql: Sql): Promise<void> {
  return onLivingConnection(() => saveAtOnce(sql));
}

async function saveAtOnce(sql: Sql): Promise<void> {
  await sql.begin('isolation level repeatable read', async (transaction) => {
    // a copy of the data folder that is made later contains it
    await transaction`set local synchronous_commit = on`;
    await transaction`drop schema if exists saved cascade`;
    await transaction`create schema saved`;
    for (const { name } of await tablesOf(transaction as unknown as Sql))
      await transaction`create table saved.${transaction(name)} as table public.${transaction(name)}`;
    await transaction`
      create table saved."the sequences" as
      select sequencename, last_value from pg_sequences where schemaname = 'public'`;
  });
}

/** Restores them like pg_restore --clean: tables and sequences have their former content, and no trigger fires. */
export async function restoreTables(database: Database): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await restoreAtOnce(database.sql);
    } catch (error) {
      const { code } = error as { code?: string };
      // a writer with a lock on one table may need another; one that lost its connection may have left a prepared transaction
      if ((code !== '40P01' && code !== '55P03') || attempt === 10) throw error;
      if (code === '55P03') await database.rollbackPrepared();
    }
  }
}

async function restoreAtOnce(sql: Sql): Promise<void> {
  await sql.begin(async (transaction) => {
    const tables = await tablesOf(transaction as unknown as Sql);
    await transaction`set local lock_timeout = 2000`;
    await transaction`lock table ${transaction(tables.map(({ name }) => name))} in access exclusive mode`;
    await transaction`set local session_replication_role = replica`;
    for (const { name } of tables) {
      const table = transaction`public.${transaction(name)}`;
      const triggers = await transaction<{ name: string; firing: keyof typeof FIRING }[]>`
        select tgname as name, tgenabled as firing from pg_trigger
        where tgrelid = ${`public.${name}`}::regclass and not tgisinternal`;
      await transaction`alter table ${table} disable trigger user`;
      await transaction`delete from ${table}`;
      await transaction`insert into ${table} overriding system value select * from saved.${transaction(name)}`;
      for (const trigger of triggers)
        await transaction.unsafe(
          `alter table public.${name} ${FIRING[trigger.firing]} trigger ${trigger.name}`,
        );
    }
    await transaction`
      select setval(format('public.%I', sequencename), coalesce(last_value, 1)) from saved."the sequences"`;
  });
}

function tablesOf(sql: Sql): Promise<{ name: string }[]> {
  return sql`
    select tablename as name from pg_tables where schemaname = 'public' order by tablename = 'api_keys', tablename`;
}

/** Copies the data folder of a stopped server, like a snapshot of its volume. Returns the folder. */
export async function saveFolder(server: OwnServer, sql: Sql): Promise<string> {
  const [at] = await onLivingConnection(() => sql<{ data_directory: string }[]>`show data_directory`);
  const data = at!.data_directory;
  await rm(`${data}.saved`, { recursive: true, force: true });
  await server.freeze();
  await run('cp', ['-a', data, `${data}.saved`]);
  await server.thaw();
  await rm(`${data}.saved/postmaster.pid`);
  return data;
}

/** Replaces the data of a stopped server by the copy. */
export async function restoreFolder(data: string): Promise<void> {
  await rm(`${data}.lost`, { recursive: true, force: true });
  await rename(data, `${data}.lost`);
  await run('cp', ['-a', `${data}.saved`, data]);
}

/** Copies the database under test while it has no connections. */
export async function copyDatabase(system: System, name: string): Promise<void> {
  await alone(system, async (sql) => {
    await sql`drop database if exists ${sql(name)}`;
    await sql`create database ${sql(name)} template postgres`;
  });
}

/** Replaces the database under test by a copy. */
export async function swapDatabase(system: System, name: string): Promise<void> {
  await alone(system, async (sql) => {
    await sql`drop database if exists broken`;
    await sql`alter database postgres rename to broken`;
    await sql`alter database ${sql(name)} rename to postgres`;
  });
}

/** SQLSTATE of a database with sessions. */
const IN_USE = '55006';

/** Ends all sessions of the database and rejects new ones meanwhile. */
async function alone(system: System, work: (sql: Sql) => Promise<void>): Promise<void> {
  await system.databases[0]!.rollbackPrepared();
  await system.asAdmin(async (sql) => {
    const [{ oid } = { oid: 0 }] = await sql`select oid from pg_database where datname = 'postgres'`;
    await sql`alter database postgres allow_connections false`;
    try {
      for (let attempt = 1; ; attempt++) {
        await sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = 'postgres'`;
        try {
          await work(sql);
          break;
        } catch (error) {
          // a session that was being opened, or a worker of autovacuum
          if ((error as { code?: string }).code !== IN_USE || attempt === MAX_ATTEMPTS) throw error;
        }
      }
    } finally {
      // a swap has renamed the database
      for (const {
        datname,
      } of await sql`select datname from pg_database where oid = ${oid} or datname = 'postgres'`)
        await sql`alter database ${sql(datname)} allow_connections true`;
    }
  });
}
