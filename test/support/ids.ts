import { expect } from 'vitest';
import type { Answer } from './client.ts';

/** Returns the ids of the hotels in a response with status 200, in order. */
export function idsOf(answer: Answer): string[] {
  expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/json']);
  return answer.json().map(({ id }: { id: string }) => id);
}
