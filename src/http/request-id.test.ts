import { expect, it } from 'vitest';
import { newIds } from './request-id.ts';

const MADE = /^[\w-]{12}[0-9a-v]{6}$/;

it('a request id is drawn once per request, and its start identifies the process', () => {
  const made = Array.from({ length: 100_000 }, () => newIds.text(newIds.next()));
  expect(new Set(made).size).toBe(100_000);
  expect(new Set(made.map((id) => id.slice(0, 12))).size).toBe(1);
  // the ids of one client do not reveal how many were drawn between them: their order and distances are random
  const rising = made.filter((id, i) => i > 0 && id > made[i - 1]!).length;
  expect(rising / made.length).toBeGreaterThan(0.45);
  expect(rising / made.length).toBeLessThan(0.55);
  const shared = made.filter((id, i) => i > 0 && id.slice(0, 16) === made[i - 1]!.slice(0, 16)).length;
  expect(shared).toBeLessThan(made.length / 1_000);
  for (const id of made) if (!MADE.test(id)) expect(id).toMatch(MADE);
});
