import { InvalidArgumentError } from 'commander';
import type { RateLimit } from '../../rate-limit/rate-limit.ts';

const UNIT_S = { s: 1, m: 60, h: 3600, d: 86_400 };
const LONGEST_GRACE_S = 3650 * UNIT_S.d;
const MAX_REQUESTS = 1_000_000;

/** Parses a future date (its first moment, UTC) or ISO time (UTC without an offset); returns an ISO time in UTC. */
export function parseExpiry(text: string): string {
  const parts =
    /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(Z|[+-]\d{2}:\d{2})?)?$/i.exec(text);
  const [, day, time = '00:00', zone = 'Z'] = parts ?? [];
  const at = new Date(`${day}T${time}${zone.toUpperCase()}`);
  // 30 February would become a day of March
  const isRealDay = new Date(`${day}T00:00Z`).toJSON()?.startsWith(day!);
  if (!parts || Number.isNaN(at.getTime()) || !isRealDay)
    throw new InvalidArgumentError('Give a date or a time, such as 2030-01-31 or 2030-01-31T12:00:00Z.');
  if (at.getTime() <= Date.now()) throw new InvalidArgumentError('The time must be in the future.');
  return at.toISOString();
}

/** Parses a duration such as `90s`, `15m`, `24h` or `7d`; returns seconds. */
export function parseDuration(text: string): number {
  const [, digits, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const seconds = Number(digits) * UNIT_S[unit as keyof typeof UNIT_S];
  if (!(seconds <= LONGEST_GRACE_S)) {
    throw new InvalidArgumentError(
      'Give a whole number and a unit (s, m, h or d), such as 24h, up to 3650d.',
    );
  }
  return seconds;
}

/** Returns a parser for whole numbers from `minimum` to `maximum`. */
export function parseWhole(minimum: number, maximum: number): (text: string) => number {
  return (text) => {
    if (!/^\d{1,15}$/.test(text) || Number(text) < minimum || Number(text) > maximum) {
      throw new InvalidArgumentError(`Give a whole number from ${minimum} to ${maximum}.`);
    }
    return Number(text);
  };
}

/** Parses a rate limit such as `200/s`, `6000/m` or `100000/h`; `none` is null. */
export function parseRateLimit(text: string): RateLimit | null {
  if (text === 'none') return null;
  const [, digits, unit] = /^(\d{1,7})\/([smh])$/.exec(text) ?? [];
  const requests = Number(digits);
  if (!(requests >= 1 && requests <= MAX_REQUESTS)) {
    throw new InvalidArgumentError(
      'Give a number of requests a second, minute or hour, such as 200/s, 6000/m or 100000/h, up to 1000000; or none.',
    );
  }
  return { requests, windowMs: 1000 * UNIT_S[unit as keyof typeof UNIT_S] };
}

/** Parses a number of hotels, or a share of them such as `30%`; returns how many of so many these are. */
export function parseAmount(text: string): (hotels: number) => number {
  const [, digits, sign] = /^(\d{1,15})(%?)$/.exec(text) ?? [];
  const number = Number(digits);
  if (digits === undefined || (sign && number > 100))
    throw new InvalidArgumentError('Give a number of hotels, or a share of them such as 30%.');
  return (hotels) => (sign ? Math.floor((hotels * number) / 100) : number);
}

/** Returns a parser for texts of 1 to `maximum` characters that are not blank. */
export function parseText(maximum: number): (text: string) => string {
  return (text) => {
    if (text.trim() === '' || [...text].length > maximum)
      throw new InvalidArgumentError(`Give 1 to ${maximum} characters.`);
    return text;
  };
}
