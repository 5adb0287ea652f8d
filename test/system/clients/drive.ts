// Run by client-gateways.test.ts beside the client: makes the calls in the file that its argument names, and prints each result.
import { readFileSync } from 'node:fs';
import { HotelApi, HotelApiError } from './client.ts';

const { HOTEL_API_URL, HOTEL_API_KEY } = process.env;
const { calls, maxAttempts } = JSON.parse(readFileSync(process.argv[2]!, 'utf8'));
const api = new HotelApi({
  url: HOTEL_API_URL!,
  key: HOTEL_API_KEY!,
  ...(maxAttempts && { maxAttempts }),
}) as unknown as Record<string, (argument: unknown) => unknown>;

const results: object[] = [];
for (const [name, argument] of calls) {
  try {
    if (name === 'hotels') {
      let count = 0;
      for await (const _ of api.hotels!(undefined) as AsyncIterable<unknown>) count++;
      results.push({ value: count });
      continue;
    }
    const value = (await api[name]!(argument)) as { id: string; name: string } | { id: string }[] | undefined;
    results.push({ value: Array.isArray(value) ? value.map(({ id }) => id) : (value?.id ?? null) });
  } catch (error) {
    const { status, code, id, retryAfterMs } = error as HotelApiError;
    const details = error instanceof HotelApiError ? { status, code: code ?? null, id: id ?? null } : {};
    const retryAfterS = retryAfterMs === undefined ? {} : { retryAfterS: retryAfterMs / 1000 };
    results.push({ message: (error as Error).message, ...details, ...retryAfterS });
  }
}
console.log(JSON.stringify(results));
