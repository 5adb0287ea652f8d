import { History, type Snapshot } from './history.ts';
import { hotelValue } from './violations.ts';

export const hotel = (name: string, more: object = {}) => ({
  id: 'h1',
  name,
  description: null,
  channel_id: 'C1',
  registry_id: 7,
  ...more,
});
export type Hotel = ReturnType<typeof hotel>;

export function snapshot(
  hotels: Hotel[],
  keys: Record<string, 'full' | 'narrow'> = { full: 'full' },
): Snapshot {
  const found: Snapshot = new Map();
  for (const one of hotels) {
    const value = hotelValue(one);
    found.set(`hotel:${one.id}`, { value });
    found.set(`channel:${one.channel_id}`, { value });
    found.set(`registry:${one.registry_id}`, { value });
  }
  for (const [key, scope] of Object.entries(keys)) found.set(`key:${key}`, { value: JSON.stringify(scope) });
  return found;
}

/** Returns a history of commits at these times, acknowledged 10 ms later. */
export function historyOf(start: Snapshot, ...commits: [atMs: number, after: Snapshot][]): History {
  const history = new History(start);
  for (const [atMs, after] of commits)
    history.confirm(history.plan(history.changesTo(after), atMs), atMs + 10);
  return history;
}
