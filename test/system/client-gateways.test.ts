import { beforeAll, describe, expect, it } from 'vitest';
import { CLIENTS, ClientPrograms } from '../support/client-programs.ts';
import { type FrontFault, type FrontRequest, startFront } from '../support/front.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';

const HOTELS = 250;
const HTML = '<!doctype html><title>502 Bad Gateway</title>';
const NOT_OURS = 'not a response of the hotel API, check the address';
const asHtml = (status: number) => ({ status, headers: { 'content-type': 'text/html' }, body: HTML });

await needs('python3');

let service: Service;
let programs: ClientPrograms;

beforeAll(async () => {
  const hotels = Array.from({ length: HOTELS }, (_, i) => ({
    id: `h${String(i).padStart(4, '0')}`,
    channel_id: `CH-${i}`,
    registry_id: 500_000 + i,
  }));
  service = await startService({ hotels });
  programs = await ClientPrograms.of(service);
});

interface Result {
  value?: unknown;
  message?: string;
  status?: number;
  code?: string | null;
  id?: unknown;
  retryAfterS?: number;
}

describe.each(CLIENTS)('the client in %s', (_, program, options) => {
  /** Makes the calls through a faulty gateway. Returns the result of each, and the requests that the gateway received. */
  async function drive(
    faults: Record<number, FrontFault>,
    calls: [name: string, argument?: unknown][],
    more: { maxAttempts?: number; path?: string } = {},
  ): Promise<{ results: Result[]; seen: FrontRequest[] }> {
    const { path = '', ...given } = more;
    const front = await startFront(service.port, faults);
    const results = await programs.drive<Result>(program, options, { calls, ...given }, front.url + path);
    return { results, seen: front.seen };
  }

  it('retries after responses of gateways, and after cut ones', async () => {
    const faults: FrontFault[] = [
      asHtml(502),
      { status: 504, body: '' },
      asHtml(429),
      asHtml(200),
      { status: 200, body: '{"status":"ok"}' },
      ...(['cut', 'cut body', 'cut body without length'] as const),
    ];
    // every fault meets a batch, and one each other kind of call; the list has three pages
    const calls: [name: string, argument?: unknown][] = [
      ['hotel', 'h0001'],
      ['hotels'],
      ...faults.map((): [string, unknown] => ['hotelsByChannelIds', ['CH-7', 'CH-none', 'CH-3']]),
    ];
    // the repetition succeeds
    const paths = [
      ...['/hotels/h0001', '/hotels/h0001'],
      ...['/hotels?limit=100', '/hotels?limit=100'],
      ...['/hotels?limit=100&offset=100', '/hotels?limit=100&offset=200'],
      ...faults.flatMap(() => ['/hotels/channel/batch', '/hotels/channel/batch']),
    ];
    const replies = [asHtml(502), asHtml(502), ...faults].map((fault, i) => [[1, 3][i] ?? 2 * i + 3, fault]);
    const { results, seen } = await drive(Object.fromEntries(replies), calls);
    const values = ['h0001', HOTELS, ...faults.map(() => ['h0007', 'h0003'])];
    expect(results).toEqual(values.map((value) => ({ value })));
    expect(seen.map(({ path }) => path)).toEqual(paths);
  });

  it('waits until the date of Retry-After', async () => {
    const now = new Date();
    const headers = {
      date: now.toUTCString(),
      'retry-after': new Date(now.getTime() + 2_000).toUTCString(),
    };
    const { results, seen } = await drive({ 1: { status: 503, headers, body: HTML } }, [['hotel', 'h0001']]);
    expect(results).toEqual([{ value: 'h0001' }]);
    expect(seen[1]!.atMs - seen[0]!.atMs).toBeGreaterThanOrEqual(1_980);
  });

  it('returns a Retry-After that is too long to wait for, the last response after all retries, and what is not retried', async () => {
    const elsewhere = await startFront(service.port, {});
    const { results, seen } = await drive(
      {
        1: { status: 429, retryAfterS: 3_600 },
        ...{ 2: asHtml(502), 3: asHtml(502), 4: asHtml(200), 5: asHtml(200), 6: asHtml(404) },
        7: { status: 302, headers: { location: `${elsewhere.url}/hotels/h0001` }, body: '' },
      },
      Array.from({ length: 5 }, () => ['hotel', 'h0001']),
      { maxAttempts: 2 },
    );
    const notOurs = (status: number) => ({ message: `${status} ${NOT_OURS}`, status, code: null, id: null });
    expect(results).toEqual([
      expect.objectContaining({ status: 429, retryAfterS: 3_600 }),
      notOurs(502),
      { message: expect.stringMatching(/the response to .* is not one of the hotel API|Expecting value/i) },
      notOurs(404),
      notOurs(302),
    ]);
    expect(seen).toHaveLength(7);
    // it sends its key to no other address
    expect(elsewhere.seen).toEqual([]);
  });

  it('distinguishes a missing hotel from a wrong address', async () => {
    const missing = await drive({}, [
      ['hotel', 'nowhere'],
      ['hotelByChannelId', 'CH-none'],
    ]);
    expect(missing.results).toEqual([{ value: null }, { value: null }]);
    const calls = { hotel: 'h0001', hotelsByChannelIds: ['CH-1'] };
    const wrong = await drive({}, Object.entries(calls), { path: '/wrong' });
    for (const result of wrong.results)
      expect(result).toMatchObject({ status: 404, code: 'path_not_found', message: '404 Not found' });
  });

  it('splits batches, names the invalid id of one, and preserves any id', async () => {
    const ids: unknown[] = Array.from({ length: 1_200 }, (_, i) => 500_000 + i);
    ids[1_100] = '1.5';
    // within the limit of a body
    const hotels = '\u{1f3e8}'.repeat(251);
    const longest = Array.from({ length: 999 }, (_, i) => hotels + String(i).padStart(4, '0'));
    const { results, seen } = await drive({}, [
      ['hotelsByRegistryIds', ids],
      ['hotelByRegistryId', '9007199254740993'],
      ['hotelsByRegistryIds', [500_002, '500001']],
      ['hotelsByIds', ['h0007', ...longest]],
      ['hotelsByChannelIds', ['\ud83c', 'CH-3']],
    ]);
    const message = '400 registry_id must be an integer';
    expect(results).toEqual([
      { message, status: 400, code: 'registry_id_not_integer', id: '1.5' },
      { value: null },
      { value: ['h0002', 'h0001'] },
      { value: ['h0007'] },
      { value: ['h0003'] },
    ]);
    expect(seen.map(({ path }) => path)).toContain('/hotels/registry/9007199254740993');
    expect(JSON.parse(seen.at(-1)!.body)).toEqual({ channel_ids: ['\ud83c', 'CH-3'] });
  });
});
