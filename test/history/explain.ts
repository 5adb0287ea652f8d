import type { Served } from './system.ts';
import type { Exchange, Violation } from './violations.ts';

/** Formats a time for the output. */
export const seconds = (ms: number) => (ms / 1_000).toFixed(2).padStart(6);

/** Returns the context of a wrong response for its analysis. */
export function explain(
  { database, bounds }: Served,
  { request, sentMs, receivedMs, status, key }: Exchange,
  { subject }: Violation,
  reachMs: number,
  beganMs: number,
): string[] {
  const at = (ms: number) => (Number.isFinite(ms) ? seconds(ms - beganMs).trim() : ms < 0 ? 'ever' : 'now');
  return [
    `asked by ${request.by}${'id' in request ? ` ${request.id}` : ''} with key ${key.slice(0, 8)}: status ${status}`,
    `sent at ${at(sentMs)}, received at ${at(receivedMs)}; states since ${at(reachMs)} count`,
    `broken then or just before: ${bounds.describe(sentMs).join(', ') || 'nothing'}`,
    `history of the key: ${recent(database, `key:${key}`, sentMs)
      .map(({ value, fromMs, untilMs }) => `${at(fromMs)} to ${at(untilMs)} ${value}`)
      .join(', ')}`,
    `history of ${subject}:`,
    ...recent(database, subject, sentMs).map(
      ({ value, fromMs, untilMs }) => `  ${at(fromMs)} to ${at(untilMs)}: ${value.slice(0, 160)}`,
    ),
  ];
}

const recent = ({ history }: Served['database'], subject: string, atMs: number) =>
  history.spansOf(subject).filter(({ untilMs }) => untilMs > atMs - 60_000);
