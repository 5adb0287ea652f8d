import { readConfig } from '../config.ts';
import { Failure } from '../failure.ts';
import { print } from './session.ts';

const DEADLINE_MS = 2_000;

/** `health`: asks the admin port of this machine. Throws a `Failure` unless it answers 200 within 2 seconds. */
export async function health({ live, json }: { live?: boolean; json?: boolean }): Promise<void> {
  const { ADMIN_HOST: host, ADMIN_PORT: port } = readConfig({
    ADMIN_HOST: process.env.ADMIN_HOST,
    ADMIN_PORT: process.env.ADMIN_PORT,
    // required by the service; not used here
    DATABASE_URL: 'postgres://unused',
  });
  const isEverywhere = host === '0.0.0.0' || host === '::';
  const url = `http://${isEverywhere ? '127.0.0.1' : host}:${port}/${live ? 'livez' : 'readyz'}`;
  let status: number;
  let body: string;
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(DEADLINE_MS), redirect: 'error' });
    status = response.status;
    body = (await response.text()).trim();
  } catch (error) {
    const { name, cause, message } = error as Error & { cause?: Error };
    const reason =
      name === 'TimeoutError' ? `no answer within ${DEADLINE_MS / 1000} s` : cause?.message || message;
    throw new Failure(`${url}: ${reason}. Does the service run, and is ADMIN_PORT the same here?`);
  }
  if (status !== 200) throw new Failure(`${url}: ${status} ${body}`);
  print(json, { url, status }, 'ok');
}
