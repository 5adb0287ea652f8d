/** What is true of a subject: JSON, `null` where there is nothing; keys may end by themselves. */
export interface Fact {
  value: string;
  /** by the wall clock; the subject is nothing from then on */
  expiresAtMs?: number;
}

/** The whole truth of one moment, by subject. A subject that is missing is nothing. */
export type Snapshot = Map<string, Fact>;

/** A time in which a value may have been the committed truth. */
export interface Span {
  value: string;
  fromMs: number;
  untilMs: number;
}

/** The changes of one transaction whose end is not known yet. */
export type Intent = Map<string, { fact: Fact; spans: Span[] }>;

const NOTHING: Fact = { value: 'null' };

/**
 * The history of one database: for each subject the spans in which each value may have been the truth. A span begins
 * before the COMMIT is sent and ends after the next one is acknowledged, so spans overlap. Times are of
 * `performance.now()`.
 */
export class History {
  readonly #spans = new Map<string, Span[]>();
  readonly #current = new Map<string, { fact: Fact; spans: Span[] }>();

  constructor(start: Snapshot) {
    for (const [subject, fact] of start) {
      const spans = spansOf(fact, Number.NEGATIVE_INFINITY);
      this.#spans.set(subject, [...spans]);
      this.#current.set(subject, { fact, spans });
    }
  }

  /** The values that may have been true at some moment from `fromMs` to `untilMs`. */
  possible(subject: string, fromMs: number, untilMs: number): string[] {
    const spans = this.#spans.get(subject);
    if (!spans) return [NOTHING.value];
    return spans
      .filter((span) => span.fromMs <= untilMs && span.untilMs >= fromMs && span.fromMs <= span.untilMs)
      .map(({ value }) => value);
  }

  /** Every subject of this kind that there ever was. */
  subjects(kind: string): string[] {
    return [...this.#spans.keys()].filter((subject) => subject.startsWith(`${kind}:`));
  }

  /** What a transaction would change that sees `after`. Nothing is noted yet. */
  changesTo(after: Snapshot): Snapshot {
    const changes: Snapshot = new Map();
    for (const subject of new Set([...this.#current.keys(), ...after.keys()])) {
      const fact = after.get(subject) ?? NOTHING;
      if (!isSame(fact, this.#currentOf(subject).fact)) changes.set(subject, fact);
    }
    return changes;
  }

  /** The changes may be true from now on: the COMMIT is about to be sent. */
  intend(changes: Snapshot, atMs: number): Intent {
    const intent: Intent = new Map();
    for (const [subject, fact] of changes) {
      this.#currentOf(subject);
      const spans = spansOf(fact, atMs);
      this.#spans.get(subject)!.push(...spans);
      intent.set(subject, { fact, spans });
    }
    return intent;
  }

  /** The COMMIT was acknowledged: what was true before is over. */
  confirm(intent: Intent, atMs: number): void {
    for (const [subject, state] of intent) this.#replace(subject, state, atMs);
  }

  /** The transaction was rolled back for certain: it was never true. */
  withdraw(intent: Intent): void {
    for (const [subject, { spans }] of intent) {
      const kept = this.#spans.get(subject)!.filter((span) => !spans.includes(span));
      this.#spans.set(subject, kept);
    }
  }

  /**
   * What the database holds after something that may have lost or decided transactions since `fromMs`. Intents that
   * were left open end here.
   */
  resync(found: Snapshot, fromMs: number, atMs: number): void {
    for (const subject of new Set([...this.#spans.keys(), ...found.keys()])) {
      const fact = found.get(subject) ?? NOTHING;
      const current = this.#currentOf(subject);
      if (isSame(fact, current.fact)) {
        this.#replace(subject, current, atMs);
        continue;
      }
      const spans = spansOf(fact, fromMs);
      this.#spans.get(subject)!.push(...spans);
      this.#replace(subject, { fact, spans }, atMs);
    }
  }

  /** The spans of a subject, oldest first. */
  spansOf(subject: string): readonly Span[] {
    return this.#spans.get(subject) ?? [];
  }

  #replace(subject: string, state: { fact: Fact; spans: Span[] }, atMs: number): void {
    for (const span of this.#spans.get(subject)!)
      if (!state.spans.includes(span)) span.untilMs = Math.min(span.untilMs, atMs);
    this.#current.set(subject, state);
  }

  #currentOf(subject: string): { fact: Fact; spans: Span[] } {
    let current = this.#current.get(subject);
    if (!current) {
      current = { fact: NOTHING, spans: spansOf(NOTHING, Number.NEGATIVE_INFINITY) };
      this.#current.set(subject, current);
      this.#spans.set(subject, [...current.spans]);
    }
    return current;
  }
}

function spansOf({ value, expiresAtMs }: Fact, fromMs: number): Span[] {
  if (expiresAtMs === undefined) return [{ value, fromMs, untilMs: Number.POSITIVE_INFINITY }];
  const endMs = expiresAtMs - Date.now() + performance.now();
  return [
    { value, fromMs, untilMs: endMs },
    { value: NOTHING.value, fromMs: Math.max(fromMs, endMs), untilMs: Number.POSITIVE_INFINITY },
  ];
}

function isSame(a: Fact, b: Fact): boolean {
  return a.value === b.value && a.expiresAtMs === b.expiresAtMs;
}
