import { expect } from 'vitest';
import type { HttpResponse } from './client.ts';

/** Returns the ids of the hotels in a response with status 200, in order. */
export function idsOf(response: HttpResponse): string[] {
  expect([response.status, response.headers['content-type']]).toEqual([200, 'application/json']);
  return response.json().map(({ id }: { id: string }) => id);
}

/** Fails unless the response is an error in the common form, with this sentence. */
export function expectError(
  { status, text }: Pick<HttpResponse, 'status' | 'text'>,
  expected: number,
  sentence: string | RegExp,
): void {
  const { error, ...more } = JSON.parse(text);
  const said = typeof sentence === 'string' ? sentence : expect.stringMatching(sentence);
  expect([status, error, more]).toEqual([expected, said, {}]);
}

/** Returns the headers without those that differ between any two requests, and without `others`. */
export function comparableHeaders({ headers }: HttpResponse, ...others: string[]): Record<string, unknown> {
  const differing = ['date', 'x-request-id', ...others];
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !differing.includes(name)));
}
