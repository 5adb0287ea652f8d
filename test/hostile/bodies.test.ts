import { beforeAll, describe, expect, it } from 'vitest';
import { errorsIn } from '../support/log-lines.ts';
import { residentMiB, workersOf } from '../support/processes.ts';
import { type Service, startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';

const MIB = 1024 * 1024;
const BATCH = '/hotels/batch';
const CHANNEL = '/hotels/channel/batch';
const REGISTRY = '/hotels/registry/batch';

let service: Service;
let pids: number[];

beforeAll(async () => {
  service = await startService({
    workers: 2,
    hotels: [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }],
  });
  pids = await workersOf(service, 2);
});

/** Returns JSON of just under a MiB with `text` repeated in the middle. */
const filled = (before: string, text: string, after: string) =>
  before + text.repeat(Math.floor((MIB - before.length - after.length) / text.length)) + after;
const levels = (count: number) => '['.repeat(count) + ']'.repeat(count);
const digits = (count: number) => '1'.repeat(count);
const members = Array.from({ length: 80_000 }, (_, i) => `"k${i}":0`).join();

const NO_JSON = 'Request body must be valid JSON';
const TOO_LARGE = 'Request body must be at most 1 MiB';
const NO_INTEGER = 'registry_id must be an integer';

const wrong: [what: string, path: string, body: string, sentence: string, status?: number][] = [
  ['1 MiB and a byte', BATCH, ' '.repeat(MIB + 1), TOO_LARGE, 413],
  ['8 MiB', CHANNEL, ' '.repeat(8 * MIB), TOO_LARGE, 413],
  ['1 MiB of blanks', CHANNEL, ' '.repeat(MIB), NO_JSON],
  ['half a million open objects', CHANNEL, filled('', '{"":', ''), NO_JSON],
  ['escapes without end', CHANNEL, filled('{"channel_ids":["', '\\u00', ''), NO_JSON],
  ['nested registry ids', REGISTRY, `{"registry_ids":${levels(500_000)}}`, NO_INTEGER],
  ['half a million ids', BATCH, filled('{"ids":["a"', ',1', ']}'), 'ids must hold at most 1000 ids'],
  ['a million letters', REGISTRY, `{"registry_ids":["${'x'.repeat(1_000_000)}"]}`, NO_INTEGER],
  ['a long fraction', REGISTRY, `{"registry_ids":[1.${digits(1_000_000)}]}`, NO_INTEGER],
  ['80,000 keys', BATCH, `{${members}}`, 'Request body must include an `ids` array'],
];

/** Valid, unusual bodies that request h1. */
const unusual: [what: string, path: string, body: string][] = [
  ['an id of a million letters', BATCH, `{"ids":["h1","${'x'.repeat(1_000_000)}"]}`],
  ['100,000 digits', REGISTRY, `{"registry_ids":[500001,${digits(100_000)}]}`],
  ['a million digits, as text', REGISTRY, `{"registry_ids":[500001,"${digits(1_000_000)}"]}`],
  ['a million zeros', REGISTRY, `{"registry_ids":["${'0'.repeat(1_000_000)}500001"]}`],
  ['levels beside ids', CHANNEL, `{"channel_ids":["CH-1"],"x":${levels(500_000)}}`],
  ['levels beside fractions', REGISTRY, `{"registry_ids":[5.00001e5,2.0],"x":${levels(500_000)}}`],
  ['numbers beside fractions', REGISTRY, filled('{"registry_ids":[500001.0],"x":[1', ',1', ']}')],
  ['the ids again and again', REGISTRY, filled('{"x":1', ',"registry_ids":[500001.0]', '}')],
  ['the ids twice', CHANNEL, '{"channel_ids":["nowhere"],"channel_ids":["CH-1"]}'],
];

describe('a large body', () => {
  it.each(wrong)('is rejected in the common form: %s', async (_, path, body, error, status = 400) => {
    const response = await service.post(path, body);
    expect([response.status, response.json()]).toEqual([status, { error }]);
  });

  it.each(unusual)('is served if it is valid: %s', async (_, path, body) => {
    const response = await service.post(path, body);
    expect([response.status, response.json().map(({ id }: { id: string }) => id)]).toEqual([200, ['h1']]);
  });

  it('of any kind is answered while others are served, ends no worker and causes no growth of memory', async () => {
    const round = async () => {
      for (const [, path, body] of [...wrong, ...unusual]) await service.post(path, body);
    };
    await round();
    const beforeMiB = await residentMiB(pids);
    const { text: answer } = await service.get('/hotels/h1');
    const others = new SteadyLoad(service, [{ path: '/hotels/h1', answer }], 2);
    await round();
    await round();
    await others.answers(10);
    expect(await others.stop()).toMatchObject(ALL_ANSWERED);
    expect((await residentMiB(pids)) - beforeMiB).toBeLessThan(256);
    expect((await service.workerPids()).sort()).toEqual(pids);
    expect(errorsIn(service.logs())).toEqual([]);
  });
});
