import { expect, test, vi } from 'vitest';
import { parseDuration, parseExpiry, parseRateLimit } from './arguments.ts';

test('an expiry is a time of the future, in UTC if it has no zone', () => {
  vi.setSystemTime('2026-06-01T10:00:00Z');
  for (const [text, time] of [
    ['2026-06-02', '2026-06-02T00:00:00.000Z'],
    ['2026-06-01T10:00:01Z', '2026-06-01T10:00:01.000Z'],
    ['2026-06-01T12:30', '2026-06-01T12:30:00.000Z'],
    ['2026-06-01 12:30:15.250+01:00', '2026-06-01T11:30:15.250Z'],
  ] as const)
    expect(parseExpiry(text)).toBe(time);
  for (const text of [
    ...['2026-06-01', '2026-06-01T10:00:00Z', '2027-02-29', '2027-13-01', '2027-01-01T25:00'],
    ...['tomorrow', '', '1790000000'],
  ])
    expect(() => parseExpiry(text), text).toThrow(/future|date/);
  vi.useRealTimers();
});

test('a duration is a whole number with a unit, in seconds', () => {
  expect(['0s', '90s', '15m', '24h', '7d'].map(parseDuration)).toEqual([0, 90, 900, 86_400, 604_800]);
  for (const text of ['', '24', 'h', '1.5h', '-1h', '1w', '99999d', '24H']) {
    expect(() => parseDuration(text), text).toThrow(/such as 24h/);
  }
});

test('a rate limit is a number of requests a second, minute or hour', () => {
  expect(['200/s', '1/m', '1000000/h', 'none'].map(parseRateLimit)).toEqual([
    { requests: 200, windowMs: 1_000 },
    { requests: 1, windowMs: 60_000 },
    { requests: 1_000_000, windowMs: 3_600_000 },
    null,
  ]);
  for (const text of ['', '200', '0/s', '-1/s', '1.5/s', '200/d', '200 /s', '200/S', '1000001/s', '1e3/s'])
    expect(() => parseRateLimit(text), text).toThrow(/200\/s/);
});
