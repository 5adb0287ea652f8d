// Run beside the client by its tests: makes the calls in the file that its argument names, and prints each result.
import { readFileSync } from 'node:fs';
import { HotelApi, HotelApiError } from './client.ts';

const { HOTEL_API_URL: url = '', HOTEL_API_KEY: key = '' } = process.env;
const { calls, copy, ...given } = JSON.parse(readFileSync(process.argv[2]!, 'utf8'));
const api = new HotelApi({ url, key, timeoutMs: 120_000, ...given });
const mirror = { next: copy?.next, hotels: new Map<string, never>(Object.entries(copy?.hotels ?? {})) };

/** Updates the copy after these changes of it; returns its size. */
async function update({ drop, next, waitS }: { drop?: string; next?: string; waitS?: number }) {
  if (drop) mirror.hotels.delete(drop);
  if (next) mirror.next = next;
  return (await api.mirror(mirror, waitS)).hotels.size;
}

async function make(name: string, argument: never): Promise<unknown> {
  if (name === 'mirror') return update(argument);
  if (name === 'hotels') {
    let count = 0;
    for await (const _ of api.hotels()) count++;
    return count;
  }
  const methods = api as unknown as Record<string, (argument: never) => Promise<unknown>>;
  const found = (await methods[name]!(argument)) as { id: string } | { id: string }[] | undefined;
  return Array.isArray(found) ? found.map(({ id }) => id) : (found?.id ?? null);
}

const results: object[] = [];
for (const [name, argument] of calls) {
  try {
    results.push({ value: await make(name, argument as never) });
  } catch (error) {
    const { status, code, id, retryAfterMs } = error as HotelApiError;
    const details = error instanceof HotelApiError ? { status, code: code ?? null, id: id ?? null } : {};
    const retryAfterS = retryAfterMs === undefined ? {} : { retryAfterS: retryAfterMs / 1000 };
    const size = name === 'mirror' ? { size: mirror.hotels.size } : {};
    results.push({ message: (error as Error).message, ...details, ...retryAfterS, ...size });
  }
}
console.log(JSON.stringify(results));
