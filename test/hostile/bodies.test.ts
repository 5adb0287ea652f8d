import { beforeAll, describe, expect, it } from 'vitest';
import { shapes } from '../../src/http/large-bodies.fixture.ts';
import { errorsIn } from '../support/log-lines.ts';
import { residentMiB, workersOf } from '../support/memory.ts';
import { type Service, startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';

const MIB = 1024 * 1024;

let service: Service;
let pids: number[];
let linesBefore: number;

beforeAll(async () => {
  service = await startService({
    workers: 2,
    hotels: [
      { id: 'h1', channel_id: 'CH-1', registry_id: 500001 },
      { id: 'one', registry_id: 1 },
    ],
  });
  pids = await workersOf(service, 2);
  linesBefore = service.logs().length;
});

const CHANNEL = '/hotels/channel/batch';
const REGISTRY = '/hotels/registry/batch';
const many = (count: number, one: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => one(i)).join(',');
/** Returns JSON of just under a MiB with `text` repeated in the middle. */
const filled = (before: string, text: string, after: string) =>
  before + text.repeat(Math.floor((MIB - before.length - after.length) / text.length)) + after;

const levels = (count: number) => '['.repeat(count) + ']'.repeat(count);
const NO_JSON = 'Request body must be valid JSON';
const TOO_LARGE = 'Request body must be at most 1 MiB';
const NO_INTEGER = 'registry_id must be an integer';

const bodies: [what: string, path: string, body: string, sentence: string | RegExp, status?: number][] = [
  ['1 MiB and a byte', CHANNEL, ' '.repeat(MIB + 1), TOO_LARGE, 413],
  ['8 MiB', CHANNEL, ' '.repeat(8 * MIB), TOO_LARGE, 413],
  ['1 MiB of blanks', CHANNEL, ' '.repeat(MIB), NO_JSON],
  ['a million open brackets', CHANNEL, '['.repeat(1_000_000), NO_JSON],
  ['half a million nested arrays', CHANNEL, levels(500_000), /channel_ids/],
  ['half a million open objects', CHANNEL, filled('', '{"":', ''), NO_JSON],
  [
    'nested arrays as the ids',
    CHANNEL,
    `{"channel_ids":${levels(500_000)}}`,
    'channel_ids must hold strings only',
  ],
  ['nested arrays as registry ids', REGISTRY, `{"registry_ids":${levels(500_000)}}`, NO_INTEGER],
  [
    'nested objects beside a fraction',
    REGISTRY,
    `{"registry_ids":[1.5],"x":${'{"a":'.repeat(150_000)}1${'}'.repeat(150_000)}}`,
    NO_INTEGER,
  ],
  [
    'half a million ids',
    CHANNEL,
    filled('{"channel_ids":["a"', ',1', ']}'),
    'channel_ids must hold at most 1000 ids',
  ],
  [
    'a registry id of a million letters',
    REGISTRY,
    `{"registry_ids":["${'x'.repeat(1_000_000)}"]}`,
    NO_INTEGER,
  ],
  ['a fraction of a million digits', REGISTRY, `{"registry_ids":[1.${'1'.repeat(1_000_000)}]}`, NO_INTEGER],
  ['80,000 keys', CHANNEL, `{${many(80_000, (i) => `"k${i}":0`)}}`, /channel_ids/],
  ['keys of the prototype', CHANNEL, '{"__proto__":{"channel_ids":["CH-1"]},"constructor":1}', /channel_ids/],
  ['a string that does not end', CHANNEL, filled('{"channel_ids":["', 'x', ''), NO_JSON],
  ['escapes without end', CHANNEL, filled('{"channel_ids":["', '\\u00', ''), NO_JSON],
  ['no UTF-8', CHANNEL, '{"channel_ids":["\xff"]}', NO_JSON],
];

/** Valid, unusual bodies, which are served as fast. */
const unusual: [what: string, path: string, body: string][] = [
  [
    'ten ids of 100 kB',
    CHANNEL,
    `{"channel_ids":["CH-1",${many(10, (i) => `"${String(i).repeat(100_000)}"`)}]}`,
  ],
  ['a registry id of 100,000 digits', REGISTRY, `{"registry_ids":[500001,${'9'.repeat(100_000)}]}`],
  [
    'a registry id of a million digits, as text',
    REGISTRY,
    `{"registry_ids":[500001,"${'9'.repeat(1_000_000)}"]}`,
  ],
  ['ids of a million zeros', REGISTRY, `{"registry_ids":["${'0'.repeat(1_000_000)}500001"]}`],
  ['1000 times the same', CHANNEL, `{"channel_ids":[${many(1_000, () => '"CH-1"')}]}`],
  ['half a million levels beside the ids', CHANNEL, `{"channel_ids":["CH-1"],"x":${levels(500_000)}}`],
  [
    'half a million levels beside ids with fractions',
    REGISTRY,
    `{"registry_ids":[5.00001e5,2.0],"x":${levels(500_000)}}`,
  ],
  [
    'half a million numbers beside ids with fractions',
    REGISTRY,
    filled('{"registry_ids":[500001.0],"x":[1', ',1', ']}'),
  ],
  ['brackets in an id', CHANNEL, `{"channel_ids":["CH-1","${'['.repeat(100_000)}\\"["]}`],
  ['the ids twice', CHANNEL, '{"channel_ids":["nowhere"],"channel_ids":["CH-1"]}'],
];

describe('an excessive body is rejected, in the common form:', () => {
  it.each(bodies)('%s', async (_, path, body, sentence, status = 400) => {
    const response = await service.post(path, Buffer.from(body, 'latin1'));
    expect([response.status, response.headers['content-type']]).toEqual([status, 'application/json']);
    const { error, ...more } = response.json();
    if (typeof sentence === 'string') expect(error).toBe(sentence);
    else expect(error).toMatch(sentence);
    expect(more).toEqual({});
  });
});

describe('an unusual, valid body is served:', () => {
  it.each(unusual)('%s', async (_, path, body) => {
    const response = await service.post(path, Buffer.from(body, 'latin1'));
    expect(response.status, response.text.slice(0, 200)).toBe(200);
    expect(response.json().map(({ id }: { id: string }) => id)).toEqual(['h1']);
  });
});

/** Shapes that are not JSON, or not a batch. */
const REJECTED: Record<string, string> = {
  'brackets that stay open': NO_JSON,
  'objects that stay open': NO_JSON,
  'an unfinished string': NO_JSON,
  'no UTF-8 at the end': NO_JSON,
  NULs: NO_JSON,
  'a million ids': 'registry_ids must hold at most 1000 ids',
};

it('bodies of every shape are answered while others are served, end no worker and cause no growth of memory', async () => {
  const { text: answer } = await service.get('/hotels/h1');
  const all = [...bodies, ...unusual].map(([, path, body]) => ({ path, bytes: Buffer.from(body, 'latin1') }));
  const round = async () => {
    for (const { path, bytes } of all) await service.post(path, bytes);
  };
  await round();
  const beforeMiB = await residentMiB(pids);
  const others = new SteadyLoad(service, [{ path: '/hotels/h1', answer }], 2);
  const answers = new Map<string, string>();
  for (const [shape, body] of Object.entries(shapes)) {
    const response = await service.post(REGISTRY, body);
    const of = response.json();
    answers.set(shape, response.status === 200 ? of.map(({ id }: { id: string }) => id).join() : of.error);
  }
  await round();
  await others.answers(10);
  expect(await others.stop()).toMatchObject(ALL_ANSWERED);
  expect(Object.fromEntries(answers)).toEqual(
    Object.fromEntries(Object.keys(shapes).map((shape) => [shape, REJECTED[shape] ?? 'one'])),
  );
  expect((await residentMiB(pids)) - beforeMiB).toBeLessThan(256);
  expect((await service.workerPids()).sort()).toEqual(pids);
  expect(errorsIn(service.logs().slice(linesBefore))).toEqual([]);
});
