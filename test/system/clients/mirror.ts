// Run by clients.test.ts beside the client: updates one copy for each step, and prints the size of it and the errors.
import { HotelApi } from './client.ts';

const { copy, steps, maxAttempts = 5 } = JSON.parse(process.argv[2]!);
const { HOTEL_API_URL: url = '', HOTEL_API_KEY: key = '' } = process.env;
const api = new HotelApi({ url, key, maxAttempts, timeoutMs: 120_000 });
const mirror = { next: copy.next, hotels: new Map<string, never>(Object.entries(copy.hotels ?? {})) };
const results: unknown[] = [];
for (const { drop, next, waitS } of steps) {
  if (drop) mirror.hotels.delete(drop);
  if (next) mirror.next = next;
  try {
    await api.mirror(mirror, waitS);
    results.push(mirror.hotels.size);
  } catch (error) {
    results.push({ error: (error as Error).message, size: mirror.hotels.size });
  }
}
console.log(JSON.stringify(results));
