import fc from 'fast-check';
import { expect, it } from 'vitest';
import { CacheArena } from '../cache/arena/arena.ts';
import { CacheMemory } from '../cache/memory.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { bodyErrorOf } from './operations.ts';

const arena = new CacheArena(new CacheMemory(0));

/** Returns the distinct ids of a body, or its error. */
function readBatch(namespace: Namespace, body: Uint8Array) {
  const lookup = arena.gather(namespace, body, 'full', 0);
  return bodyErrorOf(namespace, lookup) ?? { ids: [...lookup.takePartial().keys] };
}

it('a nested body is read at any depth', () => {
  const read = (namespace: Namespace, ids: string) =>
    readBatch(namespace, Buffer.from(`{${ids},"x":${'['.repeat(400_000)}${']'.repeat(400_000)}}`));
  expect(read('channel', '"channel_ids":["a"]')).toEqual({ ids: ['a'] });
  expect(read('registry', '"registry_ids":["1",2.0]')).toEqual({ ids: ['1', '2'] });
});

/** Returns the exact value of a JSON number as digits; undefined unless it is an integer. Its exponent must be small. */
function integerOf(written: string): string | undefined {
  const [, sign, whole, fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(written) ?? [];
  if (whole === undefined) return undefined;
  const scale = Number(exponent) - fraction.length;
  const digits = BigInt(sign + whole + fraction);
  if (scale >= 0) return String(digits * 10n ** BigInt(scale));
  const divisor = 10n ** BigInt(-scale);
  return digits % divisor === 0n ? String(digits / divisor) : undefined;
}

const NAMES = {
  id: ['ids', 'idsMissing', 'tooManyIds', 'idNotString'],
  channel: ['channel_ids', 'channelIdsMissing', 'tooManyChannelIds', 'channelIdNotString'],
  registry: ['registry_ids', 'registryIdsMissing', 'tooManyRegistryIds', 'registryIdNotInteger'],
} as const;

/** Parses a body like JSON.parse, with numbers as they are written. */
function parsed(namespace: Namespace, body: Uint8Array): ReturnType<typeof readBatch> {
  class Written {
    readonly source: string;
    constructor(source: string) {
      this.source = source;
    }
  }
  const keep = (_: string, value: unknown, { source }: { source: string }) =>
    typeof value === 'number' ? new Written(source) : value;
  let value: Record<string, unknown> | null;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(body);
    value = JSON.parse(text, keep as (key: string, value: unknown) => unknown);
  } catch {
    return { error: 'bodyNotJson' };
  }
  const isRegistry = namespace === 'registry';
  const [name, missing, tooMany, wrong] = NAMES[namespace];
  const requested = value?.[name];
  if (!Array.isArray(requested)) return { error: missing };
  if (requested.length > 1000) return { error: tooMany };
  const ids = new Set<string>();
  for (const [index, element] of requested.entries()) {
    if (isRegistry) {
      const id =
        element instanceof Written
          ? integerOf(element.source)
          : typeof element === 'string' && /^-?\d+$/.test(element)
            ? String(BigInt(element))
            : undefined;
      if (id === undefined) return { error: wrong, index };
      if (id.replace('-', '').length <= 19) ids.add(id);
    } else {
      if (typeof element !== 'string') return { error: wrong, index };
      if (element.isWellFormed()) ids.add(element);
    }
  }
  return { ids: [...ids] };
}

it('any body is accepted or rejected as by JSON.parse, with the same ids', () => {
  const namespace = fc.constantFrom<Namespace[]>('id', 'channel', 'registry');
  const written = fc
    .tuple(
      fc.constantFrom('', '-'),
      fc.bigInt({ min: 0n, max: 10n ** 21n }),
      fc.constantFrom('', '.', '.0', '.50', '.25', '.000000000001'),
      fc.constantFrom('', 'e', 'e0', 'E2', 'e+17', 'e-1', 'E-2', 'e-40', 'e60'),
    )
    .map((parts) => parts.join(''));
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }).map((of) => JSON.stringify(of)),
    fc.string({ unit: 'grapheme', maxLength: 40 }).map((of) => JSON.stringify(of)),
    fc.constantFrom(
      ...['"\\u0041\\/\\b\\f\\"', '"\\ud83d\\ud83d\\ude00"', '"\\uD83Dx"', '"-007"', '"\\u0031"', '"\\x"'],
    ),
  );
  const element = fc.oneof(written, text, fc.constantFrom('null', 'true', '[]', '{"a":[1]}', '[[{}],2]'));
  const ids = fc
    .oneof(fc.array(text), fc.array(fc.oneof(fc.integer().map(String), written)), fc.array(element))
    .map((of) => `[${of.join(' ,\n')}]`);
  const name = fc.constantFrom(
    ...['ids', 'channel_ids', 'registry_ids', 'i\\u0064s', 'registry\\u005fids', 'channel_idz'],
    ...['', '__proto__'],
  );
  const member = fc.tuple(name, fc.oneof(ids, element, fc.json())).map(([of, value]) => `"${of}":${value}`);
  const object = fc.array(member, { maxLength: 4 }).map((members) => `{${members.join()}}`);
  const body = fc
    .tuple(
      fc.constantFrom('', ' ', '\ufeff', '\t\r'),
      fc.oneof({ weight: 5, arbitrary: object }, element, fc.json()),
    )
    .map((parts) => Buffer.from(parts.join('')));
  /** inserts, deletes or changes a few bytes */
  const damaged = fc
    .tuple(body, fc.nat(), fc.nat(2), fc.uint8Array({ maxLength: 3 }))
    .map(([of, place, removed, patch]) => {
      const at = place % (of.length + 1);
      return Buffer.concat([of.subarray(0, at), patch, of.subarray(at + removed)]);
    });
  const brackets = fc
    .array(fc.constantFrom(...'[]{}:,"1\\ '), { maxLength: 12 })
    .map((of) => Buffer.from(`{"channel_ids":["a"],"x":${of.join('')}}`));

  fc.assert(
    fc.property(namespace, fc.oneof(body, damaged, brackets), (of, bytes) => {
      expect(readBatch(of, bytes)).toEqual(parsed(of, bytes));
    }),
    { numRuns: 20_000 },
  );
});
