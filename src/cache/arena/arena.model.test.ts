import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Encoding, type Entry, VIEWS } from '../../hotels/entry.ts';
import type { Namespace } from '../../hotels/namespace.ts';
import { ABSENT, MISS } from '../../wasm/constants.ts';
import { CacheMemory } from '../memory.ts';
import { hotel, NOW_MS } from './arena.fixture.ts';
import { CacheArena } from './arena.ts';

const NAMESPACES: Namespace[] = ['id', 'channel', 'registry'];
const CODINGS: Encoding[] = ['zstd', 'br', 'gzip'];
const ARENA_BYTES = 1024 ** 2;

/** Model of the arena in plain Maps. It is unbounded and learns of evictions by lookups in the arena. */
class Model {
  readonly entries = new Map<string, Entry>();
  readonly owners = new Map<string, string>();
  readonly absences = new Set<string>();
  /** number of compressed forms that were found */
  forms = 0;
  readonly arena: CacheArena;

  constructor(arena: CacheArena) {
    this.arena = arena;
  }

  keysOf(entry: Entry): [Namespace, string][] {
    const keys: [Namespace, string][] = [['id', entry.id]];
    if (entry.channelId !== null) keys.push(['channel', entry.channelId]);
    if (entry.registryId !== null) keys.push(['registry', entry.registryId]);
    return keys;
  }

  /** Returns the entry of a key, unless the arena has evicted it. */
  held(namespace: Namespace, key: string): Entry | undefined {
    const id = this.owners.get(`${namespace} ${key}`);
    if (id === undefined) return undefined;
    if (this.arena.find('id', id, NOW_MS) > 0) return this.entries.get(id);
    this.forget(id);
    return undefined;
  }

  forget(id: string): void {
    this.entries.delete(id);
    for (const [key, owner] of this.owners) if (owner === id) this.owners.delete(key);
  }

  put(entry: Entry): void {
    const old = this.held('id', entry.id);
    const isStored = this.arena.put(entry.bytes, NOW_MS, NOW_MS + 1);
    expect(isStored).toBe(!(old && old.label > entry.label));
    if (!isStored) return;
    this.forget(entry.id);
    this.entries.set(entry.id, entry);
    for (const [namespace, key] of this.keysOf(entry)) {
      this.absences.delete(`${namespace} ${key}`);
      const holder = namespace === 'id' ? undefined : this.held(namespace, key);
      if (!(holder && holder.label > entry.label)) this.owners.set(`${namespace} ${key}`, entry.id);
    }
  }

  drop(namespace: Namespace, key: string): void {
    const id = this.owners.get(`${namespace} ${key}`);
    if (id !== undefined) this.forget(id);
    this.absences.delete(`${namespace} ${key}`);
  }

  /** Checks that the arena's result for a key is right; without evictions it knows every key of the model. */
  check(namespace: Namespace, key: string): void {
    const entry = this.held(namespace, key);
    const ref = this.arena.find(namespace, key, NOW_MS);
    if (entry) {
      expect(ref).toBeGreaterThan(0);
      expect(this.arena.read(ref).equals(entry.bytes)).toBe(true);
      for (const view of VIEWS) {
        expect(entry.body(view).equals(this.arena.body(ref, view))).toBe(true);
        expect(String(this.arena.tag(ref, view))).toBe(entry.tag(view));
      }
    } else if (ref !== MISS) {
      expect(ref).toBe(ABSENT);
      expect(this.absences.has(`${namespace} ${key}`)).toBe(true);
    }
  }

  /** Checks or stores the forms of a hotel. Those of another view, coding, hotel or content have other bytes. */
  checkForms(id: string): void {
    for (const view of VIEWS)
      for (const coding of CODINGS) {
        const ref = this.arena.find('id', id, NOW_MS);
        if (ref <= 0) return;
        const bytes = Buffer.from(`${this.arena.tag(ref, view)} ${view} ${coding} `.repeat(20));
        const form = this.arena.form(ref, view, coding);
        if (form) {
          expect(bytes.equals(form)).toBe(true);
          this.forms++;
        } else this.arena.putForm(ref, view, coding, bytes);
      }
  }
}

const id = fc.integer({ min: 0, max: 300 }).map((i) => (i % 7 === 0 ? `hôtel-${i}` : `hotel-${i}`));
const foreign = fc.integer({ min: 0, max: 60 }).map(String);
const optional = fc.option(foreign, { nil: null });
type Key = [Namespace, string];

const key: fc.Arbitrary<Key> = fc.oneof(
  fc.tuple(fc.constant('id'), id),
  fc.tuple(fc.constantFrom('channel', 'registry'), foreign),
);
const put = fc.record({
  id,
  channel_id: optional,
  registry_id: optional,
  label: fc.integer({ min: 1, max: 6 }),
  length: fc.integer({ min: 500, max: 7500 }),
});
const stepOf = <What extends string, Of>(weight: number, what: What, of: fc.Arbitrary<Of>) => ({
  weight,
  arbitrary: fc.record({ what: fc.constant(what), of }),
});
const step = fc.oneof(
  stepOf(300, 'put', put),
  stepOf(50, 'absent', key),
  stepOf(50, 'drop', key),
  stepOf(100, 'find', key),
  stepOf(50, 'gather', fc.array(key, { maxLength: 40 })),
  stepOf(50, 'forms', fc.nat(20)),
  stepOf(1, 'clear', fc.constant(undefined)),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function checkGather(model: Model, keys: Key[]): void {
  for (const namespace of NAMESPACES) {
    const requested = keys.filter(([of]) => of === namespace).map(([, text]) => text);
    const bodies = [];
    const missed = [];
    for (const text of new Set(requested)) {
      const entry = model.held(namespace, text);
      if (entry) bodies.push(entry.body('narrow').toString());
      else if (model.arena.find(namespace, text, NOW_MS) === MISS) missed.push(text);
    }
    const batch = model.arena.gatherKeys(namespace, requested, 'narrow', NOW_MS);
    expect(Buffer.from(batch.output).toString()).toBe(`[${bodies.join()}]`);
    expect(batch.takePartial().keys).toEqual(missed);
    expect(batch.hits).toBe(bodies.length);
  }
}

function take(model: Model, step: Step): void {
  const { arena } = model;
  if (step.what === 'put') {
    model.put(hotel({ ...step.of, description: String(step.of.label).repeat(step.of.length) }));
  } else if (step.what === 'absent') {
    arena.putAbsent(...step.of, NOW_MS, NOW_MS + 1);
    model.drop(...step.of);
    model.absences.add(step.of.join(' '));
  } else if (step.what === 'drop') {
    arena.drop(...step.of);
    model.drop(...step.of);
  } else if (step.what === 'find') {
    model.check(...step.of);
  } else if (step.what === 'gather') {
    checkGather(model, step.of);
  } else if (step.what === 'forms') {
    model.checkForms(`hotel-${step.of}`);
  } else {
    arena.clear();
    for (const known of model.entries.keys()) model.forget(known);
    model.absences.clear();
  }
}

it('never returns a wrong or outdated entry, after any sequence of changes and evictions', () => {
  const arena = new CacheArena(new CacheMemory(ARENA_BYTES));
  let [evictions, found] = [0, 0];
  fc.assert(
    fc.property(fc.array(step, { minLength: 300, maxLength: 1500, size: 'max' }), (steps) => {
      arena.clear();
      const model = new Model(arena);
      for (const step of steps) take(model, step);
      for (let i = 0; i <= 60; i++) for (const namespace of NAMESPACES) model.check(namespace, String(i));
      for (const entry of model.entries.values()) model.check('id', entry.id);
      const isKnownAbsent = (of: string) => {
        const [namespace, key] = of.split(' ') as [Namespace, string];
        return arena.find(namespace, key, NOW_MS) === ABSENT;
      };
      const absences = [...model.absences].filter(isKnownAbsent).length;
      for (const entry of model.entries.values()) model.held('id', entry.id);
      const { bytes, maxBytes } = arena.stats();
      expect(arena.stats()).toMatchObject({ entries: model.entries.size, absences });
      expect(bytes).toBeLessThanOrEqual(maxBytes);
      evictions = arena.stats().evictions;
      found += model.forms;
    }),
    { numRuns: 80 },
  );
  expect(evictions).toBeGreaterThan(300);
  expect(found).toBeGreaterThan(1_000);
});
