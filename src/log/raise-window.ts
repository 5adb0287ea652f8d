import type { LogRow } from './row.ts';
import type { Window } from './window.ts';

/** Applies a row of the log to a window: no label below its position is covered for the keys that it names. */
export function raiseWindow(window: Window, { kind, position, ids, channelIds, registryIds }: LogRow): void {
  if (kind.startsWith('all_')) window.raiseFloor(position);
  else if (kind === 'keys') for (const id of ids) window.raise('key', id, position);
  else if (kind === 'hotels')
    for (const [i, id] of ids.entries()) {
      window.raise('id', id, position);
      const [channelId, registryId] = [channelIds[i], registryIds[i]];
      if (channelId) window.raise('channel', channelId, position);
      if (registryId) window.raise('registry', registryId, position);
    }
}
