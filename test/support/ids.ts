import { expect } from 'vitest';
import type { HttpResponse } from './client.ts';

/** Returns the ids of the hotels in a response with status 200, in order. */
export function idsOf(response: HttpResponse): string[] {
  expect([response.status, response.headers['content-type']]).toEqual([200, 'application/json']);
  return response.json().map(({ id }: { id: string }) => id);
}
