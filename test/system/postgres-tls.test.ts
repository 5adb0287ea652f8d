import { chmod, chown, copyFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { faultOfPostgresTls } from '../../src/config/postgres-tls.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { Authority } from '../support/certificates.ts';
import { needs } from '../support/needs.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { startService } from '../support/service.ts';

await needs('openssl');

/** Codes of a certificate of an unknown authority. */
const UNTRUSTED = /^(UNABLE_TO_|SELF_SIGNED_|CERT_)/;

let authority: Authority;
let otherAuthority: Authority;
/** of the service's login, without parameters; the server's certificate is for `localhost` only */
let url: string;
let ownerUrl: string;
let client: { key: string; certificate: string };

/** Makes the server accept only TLS, and for `by_certificate` a certificate instead of a password. */
async function demandTls(): Promise<void> {
  const sql = postgresClient(ownerUrl);
  const [{ data_directory: folder }] = (await sql`show data_directory`) as unknown as [
    { data_directory: string },
  ];
  const { uid, gid } = await stat(folder);
  const { key, certificate } = await authority.certify('postgres', 'DNS:localhost');
  for (const [from, name] of [
    [key, 'server.key'],
    [certificate, 'server.crt'],
    [authority.certificate, 'ca.crt'],
  ] as const) {
    const to = join(folder, name);
    await copyFile(from, to);
    await chown(to, uid, gid);
    await chmod(to, 0o600);
  }
  const rules = ['hostssl all by_certificate all cert', 'hostssl all all all scram-sha-256'];
  await writeFile(join(folder, 'pg_hba.conf'), `${rules.join('\n')}\n`);
  await sql`alter system set ssl_ca_file = 'ca.crt'`;
  await sql`alter system set ssl = on`;
  await sql`create role by_certificate login in role hotel_api_serve`;
  await sql`select pg_reload_conf()`;
  await sql.end();
}

beforeAll(async () => {
  [authority, otherAuthority] = await Promise.all([Authority.create(), Authority.create()]);
  client = await authority.certify('by_certificate');
  ({ url, ownerUrl } = await ownPostgres(60));
  await demandTls();
  // the server reads its settings a moment later
  await vi.waitUntil(async () => (await send('sslmode=require')) === 'encrypted', { timeout: 100_000 });
});

/** Returns the state of a connection, `encrypted` or `plain`, or the code of its error. */
async function send(parameters: string, { host = 'localhost', user = '' } = {}): Promise<string> {
  const address = new URL(url);
  address.hostname = host;
  if (user) Object.assign(address, { username: user, password: '' });
  const sql = openDatabase(`${address.href}?${parameters}`, 1, { kind: 'operate' });
  try {
    const [row] = await sql`select ssl from pg_stat_ssl where pid = pg_backend_pid()`;
    return row!.ssl ? 'encrypted' : 'plain';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  } finally {
    await sql.end({ timeout: 0 });
  }
}

describe('a connection to PostgreSQL', () => {
  it('uses the last files that fit each other: a rotation replaces one after the other', async () => {
    const [key, certificate] = ['rotated.key', 'rotated.crt'].map((name) => authority.file(name));
    await copyFile(client.key, key!);
    await copyFile(client.certificate, certificate!);
    const parameters = `sslmode=require&sslcert=${certificate}&sslkey=${key}`;
    const present = () => send(parameters, { user: 'by_certificate' });
    expect(await present()).toBe('encrypted');
    await copyFile((await authority.certify('another')).certificate, certificate!);
    expect(await present()).toBe('encrypted');
    await writeFile(key!, '');
    expect(await present()).toBe('encrypted');
    expect(faultOfPostgresTls(`${url}?sslmode=require&sslcert=${client.certificate}&sslkey=${key}`)).toBe(
      'the file of sslkey is empty',
    );
    const other = authority.file('another.key');
    expect(faultOfPostgresTls(`${url}?sslmode=require&sslcert=${client.certificate}&sslkey=${other}`)).toBe(
      'sslcert and sslkey cannot be used (ERR_OSSL_X509_KEY_VALUES_MISMATCH)',
    );
  });

  it('uses new files without another pool', async () => {
    const rotated = authority.file('rotated-ca.crt');
    await copyFile(otherAuthority.certificate, rotated);
    const address = `${url.replace('127.0.0.1', 'localhost')}?sslmode=verify-full&sslrootcert=${rotated}`;
    const sql = openDatabase(address, 1, { kind: 'operate' });
    await expect(sql`select 1 as one`).rejects.toMatchObject({
      code: expect.stringMatching(UNTRUSTED),
    });
    await copyFile(authority.certificate, rotated);
    expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    await sql.end();
  });

  const root = () => `sslrootcert=${authority.certificate}`;
  const ofOther = () => `sslrootcert=${otherAuthority.certificate}`;
  const own = () => `sslcert=${client.certificate}&sslkey=${client.key}`;
  const elsewhere = { host: '127.0.0.1' };
  const byCertificate = { user: 'by_certificate' };

  it.each<[expected: string | RegExp, () => Promise<string>]>([
    ['28000', () => send('')],
    ['28000', () => send('sslmode=disable')],
    // encrypted without verification of the server, unless a root certificate is named
    ['encrypted', () => send('sslmode=require', elsewhere)],
    ['encrypted', () => send(`sslmode=require&${root()}`, elsewhere)],
    [UNTRUSTED, () => send(`sslmode=require&${ofOther()}`)],
    // a certificate of the authority, for any host
    ['encrypted', () => send(`sslmode=verify-ca&${root()}`, elsewhere)],
    [UNTRUSTED, () => send(`sslmode=verify-ca&${ofOther()}`)],
    [UNTRUSTED, () => send('sslmode=verify-ca')],
    // and for the host too, also for an IP address
    ['encrypted', () => send(`sslmode=verify-full&${root()}`)],
    ['ERR_TLS_CERT_ALTNAME_INVALID', () => send(`sslmode=verify-full&${root()}`, elsewhere)],
    // a client certificate
    ['encrypted', () => send(`sslmode=verify-full&${root()}&${own()}`, byCertificate)],
    ['28000', () => send(`sslmode=verify-full&${root()}`, byCertificate)],
    // which addresses of providers contain
    ['encrypted', () => send(`sslmode=verify-full&${root()}&channel_binding=require`)],
  ])('is %s by %s', async (expected, sent) => {
    expect(await sent()).toMatch(expected);
  });
});

it('the service runs with verify-full, and reports why it does not start if a certificate is rejected', async () => {
  const localhost = url.replace('127.0.0.1', 'localhost');
  const sql = postgresClient(`${ownerUrl.replace('127.0.0.1', 'localhost')}?sslmode=require`);
  const start = (address: string, awaitReady = true) => {
    const database = databaseAt(url, ownerUrl, sql);
    return startService({ database, redis: false, awaitReady, env: { DATABASE_URL: address } });
  };
  const root = `sslrootcert=${authority.certificate}`;
  const verified = await start(`${localhost}?sslmode=verify-full&${root}`);
  expect((await verified.get('/hotels')).status).toBe(200);

  // another name of this machine, which no certificate contains
  const elsewhere = url.replace('127.0.0.1', '0.0.0.0');
  const rejecting = await start(`${elsewhere}?sslmode=verify-full&${root}`, false);
  await expect.poll(() => rejecting.logs().join('\n')).toMatch(/altnames/);

  const unverified = await start(`${elsewhere}?sslmode=require`);
  expect((await unverified.get('/hotels')).status).toBe(200);
  for (const service of [verified, rejecting, unverified]) await service.stop();
  await sql.end();
});
