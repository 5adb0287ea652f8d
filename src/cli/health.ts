import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { readConfig } from '../config/config.ts';
import { Failure } from '../lib/failure.ts';
import type { CliCommand } from './common/help.ts';
import { print } from './common/print.ts';

const HEALTH_DEADLINE_MS = 2_000;

export function addCommand(program: CliCommand): void {
  program
    .command('health')
    .description('check on the admin port whether the service on this machine is ready, within 2 seconds')
    .json('{"url","status"}')
    .examples('hotel-api health', 'ADMIN_PORT=9191 hotel-api health')
    .action(health);
}

/** Runs `health`: requests the admin port of this machine. Throws a `Failure` unless it responds with 200 within 2 seconds. */
async function health({ json }: { json?: boolean }): Promise<void> {
  const { ADMIN_HOST, ADMIN_PORT: port } = readConfig({
    ADMIN_HOST: process.env.ADMIN_HOST,
    ADMIN_PORT: process.env.ADMIN_PORT,
    // unused, but its default may be the admin port
    PORT: process.env.PORT,
    // required by the service, unused here
    DATABASE_URL: 'postgres://unused',
  });
  const isEverywhere = ADMIN_HOST === '0.0.0.0' || ADMIN_HOST === '::';
  const host = isEverywhere ? '127.0.0.1' : ADMIN_HOST;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}/readyz`;
  const signal = AbortSignal.timeout(HEALTH_DEADLINE_MS);
  let status: number | undefined;
  let body: string;
  try {
    // not fetch, because it rejects the ports that browsers block, such as 6000 and 10080
    const request = get({ host, port, path: '/readyz', signal, agent: false });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    status = response.statusCode;
    body = (await text(response)).trim();
  } catch (error) {
    const reason = signal.aborted
      ? `no response within ${HEALTH_DEADLINE_MS / 1000} s`
      : (error as Error).message;
    throw new Failure(`${url}: ${reason}. Is the service running, with the same ADMIN_PORT?`);
  }
  if (status !== 200) throw new Failure(`${url}: ${status} ${body}`);
  print(json, { url, status });
}
