import { expect, it } from 'vitest';
import type { LogKind } from '../postgres/log-kinds.ts';
import { raiseWindow } from './raise-window.ts';
import type { LogRow } from './row.ts';
import { Window, type WindowNamespace } from './window.ts';

const POSITION = 50;
/** Keys that the row names, and one that it does not name. */
const KEYS: [WindowNamespace, string][] = [
  ['id', 'a'],
  ['id', 'b'],
  ['channel', 'C'],
  ['registry', '7'],
  ['key', 'a'],
  ['key', 'b'],
  ['id', 'another'],
];

const rowOf = (kind: LogKind): LogRow => ({
  position: POSITION,
  kind,
  moves: false,
  ids: ['a', 'b'],
  channelIds: ['C', null],
  registryIds: [null, '7'],
  collection: 'members of it',
});

it.each<[LogKind, outdated: string[]]>([
  ['hotels', ['id a', 'id b', 'channel C', 'registry 7']],
  ['keys', ['key a', 'key b']],
  ['members', []],
  ['collections', []],
  ['all_hotels', KEYS.map((key) => key.join(' '))],
  ['all_keys', KEYS.map((key) => key.join(' '))],
  ['all_collections', KEYS.map((key) => key.join(' '))],
])('a row of the kind %s outdates earlier labels of %j, and no later ones', (kind, outdated) => {
  const window = new Window();
  window.beginHistory(0);
  raiseWindow(window, rowOf(kind));
  const covered = (label: number) => KEYS.filter(([namespace, key]) => window.covers(namespace, key, label));
  expect(covered(POSITION)).toEqual(KEYS);
  const before = covered(POSITION - 1).map((key) => key.join(' '));
  expect(before).toEqual(KEYS.map((key) => key.join(' ')).filter((key) => !outdated.includes(key)));
});

it('a deleted hotel has no other ids', () => {
  const window = new Window();
  window.beginHistory(0);
  raiseWindow(window, { ...rowOf('hotels'), channelIds: [], registryIds: [] });
  expect(window.covers('id', 'a', POSITION - 1)).toBe(false);
  expect(window.covers('channel', 'C', 0)).toBe(true);
});
