import type { Exchange, Wrong } from './judge.ts';
import type { Served } from './system.ts';

/** A time as it is printed. */
export const seconds = (ms: number) => (ms / 1_000).toFixed(2).padStart(6);

/** What a person needs to see why an answer is wrong. */
export function explain(
  { database, bounds }: Served,
  { question, sentMs, receivedMs, status, key }: Exchange,
  { subject }: Wrong,
  reachMs: number,
  beganMs: number,
): string[] {
  const at = (ms: number) => (Number.isFinite(ms) ? seconds(ms - beganMs).trim() : ms < 0 ? 'ever' : 'now');
  return [
    `asked by ${question.by}${'id' in question ? ` ${question.id}` : ''} with key ${key.slice(0, 8)}: status ${status}`,
    `sent at ${at(sentMs)}, received at ${at(receivedMs)}; what was true from ${at(reachMs)} on counts`,
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
