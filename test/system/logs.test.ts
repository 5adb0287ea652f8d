import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { beforeAll, describe, expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { linesOf } from '../support/log-lines.ts';
import { type Service, startBehindProxy, startService } from '../support/service.ts';

const HOTELS = [{ id: 'private-id', channel_id: 'PRIVATE-CHANNEL', registry_id: 70_707_070 }];
const NONE_SLOW = { ACCESS_LOG_SLOW_MS: '60000' };
/** Data of a client that must never be logged. */
const PRIVATE = /private|PRIVATE|70707070|limit|127\.0\.0\.1|secret-header/;

/** Returns the complete lines of requests. */
const requestLines = (service: Service) => linesOf(service.logs()).filter(({ requestId }) => requestId);

async function keyIds(service: Service): Promise<string[]> {
  const rows = await service.sql<{ id: string }[]>`select id from api_keys`;
  return rows.map(({ id }) => id);
}

/** Withdraws the right to read hotels while `act` runs: requests of uncached hotels fail with 500. */
async function withoutRights(service: Service, act: () => Promise<void>): Promise<void> {
  await service.sql`revoke select on hotels from hotel_api_serve`;
  try {
    await act();
  } finally {
    await service.sql`grant select on hotels to hotel_api_serve`;
  }
}

describe('a service that samples nothing', () => {
  let service: Service;

  beforeAll(async () => {
    const env = { ACCESS_LOG_SAMPLE: '0', ...NONE_SLOW };
    service = await startService({ redis: false, hotels: HOTELS, env });
  });

  it('writes a line for a failed request, and for no other', async () => {
    for (const path of ['/hotels/private-id', '/hotels/private-nowhere', '/nowhere', '/hotels?limit=x'])
      await service.get(path);
    await service.get('/hotels/private-id', { key: 'none' });
    await withoutRights(service, async () => {
      const response = await service.get('/hotels/private-cold?limit=1', {
        headers: {
          'x-request-id': 'trace-500',
          'x-forwarded-for': 'secret-header',
          traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
        },
      });
      expect(response.status).toBe(500);
    });
    await expect.poll(() => requestLines(service).length).toBe(1);
    const [line] = requestLines(service);
    expect(line).toEqual({
      level: 'error',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      role: 'worker',
      pid: (await service.workerPids())[0],
      requestId: 'trace-500',
      trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
      span_id: '00f067aa0ba902b7',
      route: 'hotel',
      method: 'GET',
      status: 500,
      durationMs: expect.any(Number),
      bytes: 33,
      keyId: expect.any(String),
      err: {
        type: 'PostgresError',
        code: '42501',
        message: 'permission denied for table hotels',
        stack: expect.stringContaining('permission denied'),
      },
      msg: 'request failed',
    });
    expect(await keyIds(service)).toContain(line!.keyId);
    expect(JSON.stringify(line)).not.toMatch(PRIVATE);
  });

  it('counts the lines that a flood of failures suppresses', async () => {
    const FLOOD = 500;
    const before = requestLines(service).length;
    const suppressed = () => service.metric('hotel_api_log_lines_suppressed_total', { kind: 'failed' });
    await withoutRights(service, async () => {
      await Promise.all(Array.from({ length: FLOOD }, (_, i) => service.get(`/hotels/private-${i}`)));
    });
    await expect.poll(async () => requestLines(service).length - before + (await suppressed())).toBe(FLOOD);
    expect(await suppressed()).toBeGreaterThan(0);
    const bySecond = Map.groupBy(requestLines(service).slice(before), ({ time }) =>
      String(time).slice(0, 19),
    );
    for (const lines of bySecond.values()) expect(lines.length).toBeLessThanOrEqual(100);
  });
});

it('a service that samples all writes one line for each request, without data of the client', async () => {
  const service = await startService({
    redis: false,
    workers: 2,
    hotels: HOTELS,
    env: { ACCESS_LOG_SAMPLE: '1', ...NONE_SLOW },
  });
  const requested: [path: string, status: number, route: string, key?: 'none'][] = [
    ['/hotels?limit=5&offset=0&registry_id=70707070', 200, 'list'],
    ['/hotels/channel/PRIVATE-CHANNEL', 200, 'hotel_by_channel'],
    ['/private/path?limit', 404, 'other'],
    ['/hotels/private-id', 401, 'hotel', 'none'],
  ];
  for (const [path, status, , key] of requested)
    expect((await service.get(path, { key: key ?? 'full' })).status).toBe(status);
  const batch = { channel_ids: ['PRIVATE-CHANNEL'] };
  const response = await service.post('/hotels/channel/batch', batch, { key: 'narrow' });
  await expect.poll(() => requestLines(service).length).toBe(requested.length + 1);
  const lines = requestLines(service);
  expect(lines.map(({ msg, level, route, status }) => `${msg} ${level} ${route} ${status}`).sort()).toEqual(
    [
      ...requested.map(([, status, route]) => `request info ${route} ${status}`),
      'request info batch_by_channel 200',
    ].sort(),
  );
  const line = lines.find(({ method }) => method === 'POST')!;
  expect(line).toMatchObject({ requestId: response.headers['x-request-id'], bytes: response.body.length });
  const ids = await keyIds(service);
  for (const { status, keyId } of lines)
    if (status === 200) expect(ids).toContain(keyId);
    else expect(keyId).toBeUndefined();
  // a random request id may hold any few characters
  const printed = JSON.stringify(lines.map((line) => ({ ...line, requestId: undefined })));
  expect(printed).not.toMatch(PRIVATE);
  expect(printed).not.toContain('hk_');
});

it('a slow request is logged, and the reason of a rejected one', async () => {
  const { service, proxy } = await startBehindProxy({
    redis: false,
    hotels: HOTELS,
    env: { ACCESS_LOG_SAMPLE: '0', ACCESS_LOG_SLOW_MS: '100' },
  });
  // the first request may be slow itself
  await service.get('/hotels/private-id');
  const send = async (id: string, requestId: string) => {
    const { status } = await service.get(`/hotels/${id}`, { headers: { 'x-request-id': requestId } });
    const find = () => requestLines(service).find((line) => line.requestId === requestId);
    await expect.poll(find).toMatchObject({ status });
    return find()!;
  };
  proxy.delay(60);
  const slow = await send('private-cold', 'slow-1');
  proxy.blackout();
  const rejected = await send('private-colder', 'rejected-1');
  expect(slow).toMatchObject({ level: 'warn', msg: 'slow request', status: 404, route: 'hotel' });
  expect(slow.durationMs).toBeGreaterThan(100);
  expect(rejected).toMatchObject({ level: 'warn', msg: 'request rejected', status: 503 });
  expect(rejected.reason).toMatch(/^PostgreSQL: not done within \d+ ms$/);
  expect(await service.metric('hotel_api_requests_rejected_total', { reason: 'postgres_timeout' })).toBe(1);
  await proxy.heal();
});

const LINES = 20_000;
const log = new URL('../../src/observability/log.ts', import.meta.url).href;

it.each([
  ['goes on is bounded', 'process.stdin.resume();', 'SIGKILL'],
  ['exits is complete', 'process.exit(0);', 0],
] as const)(
  'a log without a reader blocks no process, and counts what it drops: of one that %s',
  async (_, rest, exit) => {
    // about 5 MB
    const program = `
    import { openLog } from '${log}';
    const log = openLog('info', 'test');
    for (let i = 0; i < ${LINES}; i++) log.info({ i, padding: 'x'.repeat(160) }, 'a line');
    process.stderr.write('logged');
    ${rest}`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program]);
    closeAtEnd('a process that logs', async () => void child.kill('SIGKILL'));
    const closed = once(child, 'close');
    await once(child.stderr, 'data');
    let printed = '';
    child.stdout.on('data', (chunk) => {
      printed += chunk;
    });
    await expect.poll(() => printed).toContain('log lines dropped');
    if (exit === 'SIGKILL') child.kill(exit);
    await closed;
    expect([child.exitCode, child.signalCode]).toContain(exit);
    const lines = linesOf(printed.split('\n')) as unknown as { msg: string; lines: number }[];
    const dropped = lines.filter(({ msg }) => msg === 'log lines dropped');
    expect(dropped[0]).toMatchObject({ level: 'error', role: 'test' });
    const counted = dropped.reduce((sum, line) => sum + line.lines, 0);
    expect(lines.length - dropped.length + counted).toBe(LINES);
    // the buffered lines, and the content of the pipe
    expect(printed.length).toBeGreaterThan(1024 ** 2);
  },
);
