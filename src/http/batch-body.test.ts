import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readChannelBatch, readRegistryBatch } from './batch-body.ts';

const channels = (body: string | Uint8Array) =>
  readChannelBatch(typeof body === 'string' ? Buffer.from(body) : body);
const registries = (body: string) => readRegistryBatch(Buffer.from(body));
const many = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('a batch by channel ids', () => {
  it('asks for each id once, at its first place', () => {
    expect(channels('{"channel_ids":["b","a","b","c","a"]}')).toEqual({ ids: ['b', 'a', 'c'] });
  });

  it('may be empty, and may hold empty and odd ids', () => {
    expect(channels('{"channel_ids":[]}')).toEqual({ ids: [] });
    expect(channels('{"channel_ids":["","\\u0000","😀","\\ud83d"," A "]}')).toEqual({
      ids: ['', '\0', '😀', '\ud83d', ' A '],
    });
  });

  it('ignores what else the object holds; of a repeated name the last counts, as JSON.parse has it', () => {
    expect(channels('{"a":1,"channel_ids":["x"],"registry_ids":[1.5]}')).toEqual({ ids: ['x'] });
    expect(channels('{"channel_ids":["x"],"channel_ids":["y"]}')).toEqual({ ids: ['y'] });
  });

  it('holds 1000 ids at most, counted before duplicates are dropped', () => {
    expect(channels(JSON.stringify({ channel_ids: new Array(1000).fill('a') }))).toEqual({ ids: ['a'] });
    expect(channels(JSON.stringify({ channel_ids: new Array(1001).fill('a') }))).toEqual({
      error: 'tooManyChannelIds',
    });
  });

  it.each([
    '',
    ' ',
    '{',
    '{"channel_ids":["a"]',
    '{"channel_ids":["a"],}',
    "{'channel_ids':[]}",
    'NaN',
    '{}{}',
  ])('%j is no JSON', (body) => {
    expect(channels(body)).toEqual({ error: 'bodyNotJson' });
  });

  it('that is no UTF-8 is no JSON', () => {
    expect(channels(Buffer.from('{"channel_ids":["\xff"]}', 'latin1'))).toEqual({ error: 'bodyNotJson' });
  });

  it.each([
    'null',
    '5',
    '"channel_ids"',
    '[]',
    '["a"]',
    '{}',
    '{"channel_ids":null}',
    '{"channel_ids":"a"}',
    '{"channel_ids":{"0":"a","length":1}}',
    '{"Channel_ids":["a"]}',
    '{"registry_ids":[1]}',
    '{"__proto__":{"channel_ids":["a"]}}',
  ])('%s lacks the array', (body) => {
    expect(channels(body)).toEqual({ error: 'channelIdsMissing' });
  });

  it.each(['5', 'null', 'true', '["a"]', '{}'])('may not hold %s', (element) => {
    expect(channels(`{"channel_ids":["a",${element}]}`)).toEqual({ error: 'channelIdNotString' });
  });

  it('gives back any ids that were put in', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' }), { maxLength: 20 }), (ids) => {
        expect(channels(JSON.stringify({ channel_ids: ids }))).toEqual({ ids: [...new Set(ids)] });
      }),
    );
  });
});

describe('a batch by registry ids', () => {
  it('takes integers and strings of integers, which are the same id', () => {
    expect(registries('{"registry_ids":[500001,"0500001","500001",-7,"-07",0,-0,"-0"]}')).toEqual({
      ids: ['500001', '-7', '0'],
    });
  });

  it('keeps integers exact past 2^53', () => {
    expect(registries('{"registry_ids":[9007199254740993,9223372036854775807,"9007199254740992"]}')).toEqual({
      ids: ['9007199254740993', '9223372036854775807', '9007199254740992'],
    });
    const digits = '9'.repeat(400);
    expect(registries(`{"registry_ids":[${digits}]}`)).toEqual({ ids: [digits] });
  });

  it.each([
    '1.5',
    '1.0',
    '1e3',
    '1E3',
    '1e400',
    '"1.5"',
    '"1e3"',
    '"0x10"',
    '""',
    '" 5"',
    'null',
    'true',
    '[1]',
    '{}',
  ])('may not hold %s', (element) => {
    expect(registries(`{"registry_ids":[1,${element}]}`)).toEqual({ error: 'registryIdNotInteger' });
  });

  it('is not disturbed by fractions elsewhere', () => {
    expect(registries('{"version":1.5,"note":"1e3","registry_ids":[5,"6"]}')).toEqual({ ids: ['5', '6'] });
  });

  it('says that the array is missing or too long before it looks at the elements', () => {
    expect(registries('{"registry_ids":1.5}')).toEqual({ error: 'registryIdsMissing' });
    expect(registries(JSON.stringify({ registry_ids: [...many(1000), 1.5] }))).toEqual({
      error: 'tooManyRegistryIds',
    });
    expect(registries(JSON.stringify({ registry_ids: many(1000) }))).toMatchObject({
      ids: many(1000).map(String),
    });
    expect(registries('{"registry_ids":[1}')).toEqual({ error: 'bodyNotJson' });
  });

  it('reads a body full of zeros in no time', () => {
    const startedAtMs = performance.now();
    const body = `{"registry_ids":["${'0'.repeat(1_000_000)}x"]}`;
    expect(registries(body)).toEqual({ error: 'registryIdNotInteger' });
    expect(performance.now() - startedAtMs).toBeLessThan(1_000);
  });

  it('gives back any integers that were put in, however they were written', () => {
    const element = fc
      .tuple(fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n }), fc.boolean())
      .map(([id, quoted]) => ({ id: String(id), written: quoted ? `"${id}"` : String(id) }));
    fc.assert(
      fc.property(fc.array(element), (elements) => {
        const body = `{"registry_ids":[${elements.map(({ written }) => written).join(',')}]}`;
        expect(registries(body)).toEqual({ ids: [...new Set(elements.map(({ id }) => id))] });
      }),
    );
  });
});

describe('a body that is nested', () => {
  const beside = (depth: number, ids: string) =>
    `{${ids},"x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;

  it('is read, however deep', () => {
    for (const depth of [64, 400_000]) {
      expect(channels(beside(depth, '"channel_ids":["a"]'))).toEqual({ ids: ['a'] });
      expect(registries(beside(depth, '"registry_ids":["1",2]'))).toEqual({ ids: ['1', '2'] });
    }
    expect(registries(beside(64, '"registry_ids":["1",1e0]'))).toEqual({ error: 'registryIdNotInteger' });
  });

  it('so deep that numbers cannot be told apart as they are written is refused', () => {
    expect(registries(beside(400_000, '"registry_ids":[1e0]'))).toEqual({ error: 'bodyNotJson' });
  });

  it('in a string only is not nested', () => {
    const id = `${'['.repeat(100)}\\"[{\\\\`;
    expect(channels(`{"channel_ids":["${id}"]}`)).toEqual({
      ids: [JSON.parse(`"${id}"`)],
    });
  });
});
