import fc from 'fast-check';
import { expect, it } from 'vitest';
import { VIEWS, type View } from '../hotels/entry.ts';
import { PartialResponse } from '../hotels/json-array.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { OK } from '../wasm/constants.ts';
import { NOW_MS } from './arena/arena.fixture.ts';
import {
  HostileRedis,
  hasOther,
  hotels,
  LONG,
  oneOf,
  random,
  SMALL,
  seedRandom,
} from './hostile-redis.fixture.ts';
import { localCacheIn } from './local-cache.fixture.ts';
import { CacheMemory } from './memory.ts';
import { RedisBatchReader } from './redis-batch/redis-batch.ts';

/** Bytes that are compared at both ends of each part: what is written beyond a part begins there. */
const EDGE_BYTES = 65_536;
/** Parts of a memory (src/wasm/assembly/layout.ts) in their order. */
const PARTS = [
  ...(['input', 'prefix', 'scratch', 'command', 'reply', 'response'] as const),
  ...(['window', 'pointerCache', 'arena', 'output'] as const),
];
type Part = (typeof PARTS)[number];

/** Returns a function that expects that only these parts have changed since its last call. The window is to stay as it is. */
function watchParts({ wasm, bytes, window }: CacheMemory): (...changed: Part[]) => void {
  const { PREFIX, SCRATCH, COMMAND, REPLY, RESPONSE, WINDOW } = wasm;
  const pointerCache = WINDOW.value + window.byteLength + 56;
  const arena = pointerCache + 160 * 0x10000;
  const starts = [
    ...[0, PREFIX.value, SCRATCH.value, COMMAND.value, REPLY.value, RESPONSE.value],
    ...[WINDOW.value, pointerCache, arena, wasm.outputStart.value >>> 0, bytes.length],
  ];
  const edges = PARTS.flatMap((part, i) => {
    const [start, end] = [starts[i]!, starts[i + 1]!];
    const length = Math.min(EDGE_BYTES, end - start);
    const views = [bytes.subarray(start, start + length), bytes.subarray(end - length, end)];
    return views.map((view) => ({ part, view, before: Buffer.from(view) }));
  });
  const cells = Buffer.from(window.buffer, window.byteOffset, window.byteLength);
  const cellsBefore = Buffer.from(cells);
  return (...changed) => {
    for (const { part, view, before } of edges)
      if (changed.includes(part)) before.set(view);
      else if (!view.equals(before)) expect.fail(`changed beside ${changed.join()}: ${part}`);
    if (!cells.equals(cellsBefore)) expect.fail(`changed beside ${changed.join()}: cells of the window`);
  };
}

/** Elements and ends of bodies. */
const ODD = [
  '1.',
  '1.x',
  '-x',
  '"\\ud83c\\udfe8"',
  '-0.0e-9',
  '1e18',
  `1${'0'.repeat(9_999)}e-9999`,
  '{"a":[[]]}',
  '"\\u',
  '"',
];
const ENDS = [']}', '', '],"x":"', `],"x":${'['.repeat(900_000)}`];
/** First letters of keys, and names in bodies. */
const NAMES = { id: ['h', 'ids'], channel: ['c', 'channel_ids'], registry: ['', 'registry_ids'] };
const NAMESPACES = Object.keys(NAMES) as Namespace[];
const PREFIXES = { id: 'h:', channel: 'c:', registry: 'r:' };

const memory = new CacheMemory(1024 ** 2);
const local = localCacheIn(memory);
const { arena } = local;
const redis = new HostileRedis();
const reader = new RedisBatchReader({
  ...{ redis: redis as never, local, memory, isCurrent: () => true, count: () => {} },
  cache: {
    prefixOf: (of: Namespace) => PREFIXES[of],
    onInvalidValue: () => {},
    fill: async () => {},
  } as never,
});
const expectChanged = watchParts(memory);
const running: Promise<unknown>[] = [];
let answered = 0;
let longest = 0;

function expectReplyTaken(): void {
  const ofPointers = ['prefix', 'command'] as const;
  const ofEntries = ['response', 'arena', 'output'] as const;
  expectChanged('input', 'scratch', 'reply', 'pointerCache', ...ofPointers, ...ofEntries);
}

/** Answers a batch, later with what Redis returns: bodies of requested hotels and nothing else. */
function complete(namespace: Namespace, keys: readonly string[], body: Buffer, view: View): void {
  const finish = (given: Uint8Array | PartialResponse) => {
    const text = Buffer.from((given instanceof PartialResponse ? given.complete([], view) : given) as Buffer);
    longest = Math.max(longest, text.length);
    // a forged part for both views may be cut off, and never goes on behind the body
    if (view === 'narrow') return expect(/registry_id":\d/.test(`${text}`)).toBe(false);
    // any bytes of such a hotel may be shown
    if (keys.some((key) => hasOther(Number(key.replace(/\D/g, ''))))) {
      const shown = [...`${text}`.matchAll(/channel_id":"c(\d+)"/g)].map(([, i]) => NAMES[namespace][0]! + i);
      return expect(shown.filter((key) => !keys.includes(key))).toEqual([]);
    }
    const found = (JSON.parse(`${text}`) as { id: string }[]).map(({ id }) => hotels[Number(id.slice(1))]!);
    expect(found.every(({ id }) => keys.includes(NAMES[namespace][0] + id.slice(1)))).toBe(true);
    expect(text.equals(Buffer.from(`[${found.map((entry) => entry.body('full')).join()}]`))).toBe(true);
    answered += found.length;
  };
  const lookup = local.gatherBody(namespace, body, view, true)!;
  if (lookup.status === OK) running.push(reader.complete(namespace, lookup, view, finish));
  expectChanged('input', 'prefix', 'scratch', 'command', 'response', 'output', 'arena');
}

const STEPS = [
  ...(['put', 'absent', 'form', 'gather', 'complete', 'read', 'late'] as const),
  ...Array<'reply'>(8).fill('reply'),
];

function take(step: (typeof STEPS)[number]): void {
  const namespace = oneOf(NAMESPACES);
  const [start, name] = NAMES[namespace] as [string, string];
  // all of them have another body, or none
  const first = random(2);
  const keys = Array.from({ length: random(90) }, () => start + (first + 2 * random((SMALL + 9) / 2)));
  if (random(8) === 0) for (let i = SMALL + first; i < hotels.length; i += 2) keys.push(start + i);
  if (random(24) === 0) for (let i = keys.length; i < 1_000; i++) keys.push(start + i + LONG);
  const elements = keys.map((key) => JSON.stringify(key));
  const body = (end: string) => Buffer.from(`{"${name}":[${elements.join()}${end}`).subarray(0, 1024 ** 2);
  const entry = oneOf(hotels);
  if (step === 'put') local.store(entry);
  if (step === 'absent') local.storeAbsent(namespace, keys.at(-1) ?? LONG);
  for (let i = 0; step === 'form' && i < 2; i++) {
    const ref = local.find('id', entry.id);
    if (ref > 0) arena.putForm(ref, oneOf(VIEWS), 'gzip', Buffer.alloc(random(20_000)));
  }
  if (step === 'gather') {
    elements.splice(random(90), random(3), oneOf(ODD));
    arena.gather(namespace, body(oneOf(ENDS)), oneOf(VIEWS), NOW_MS);
  }
  if (step === 'read') running.push(reader.read(namespace, keys, new Map()));
  if (step === 'late' && random(4) === 0) redis.late();
  if (step === 'complete') complete(namespace, keys, body(']}'), oneOf(VIEWS));
  else if (step === 'reply') redis.takeReply(expectReplyTaken);
  else if (step === 'read')
    expectChanged('input', 'prefix', 'scratch', 'command', 'response', 'output', 'arena');
  else expectChanged('input', 'output', 'arena');
}

it('no client and no Redis makes it write beyond a part of the memory, or shows the hotels of other batches', async () => {
  const step = fc.record({ what: fc.constantFrom(...STEPS), seed: fc.integer() });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 700, maxLength: 700 }), async (steps) => {
      for (const { what, seed } of steps) {
        seedRandom(seed);
        take(what);
        await new Promise(setImmediate);
      }
      redis.close();
      await Promise.all(running);
      for (const entry of hotels.filter((_, i) => !hasOther(i))) {
        const ref = arena.find('id', entry.id, NOW_MS);
        if (ref > 0) expect(entry.body('full').equals(arena.body(ref, 'full'))).toBe(true);
      }
    }),
    // its state is that of the steps before, so no shorter sequence is looked for
    { numRuns: 1, endOnFailure: true },
  );
  expect(answered).toBeGreaterThan(10);
});
