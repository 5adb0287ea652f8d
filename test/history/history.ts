/** Value of a subject: JSON, `null` if it does not exist; keys may expire. */
interface Fact {
  value: string;
  /** wall-clock time from which the subject does not exist */
  expiresAtMs?: number;
}

/** State of the database at one time, by subject. A missing subject does not exist. */
export type Snapshot = Map<string, Fact>;

/** Time span in which a value may have been committed. */
interface Span {
  value: string;
  fromMs: number;
  untilMs: number;
}

/** Changes of one transaction with an uncertain result. */
type PlannedChange = Map<string, { fact: Fact; spans: Span[] }>;

const NOTHING: Fact = { value: 'null' };

/**
 * History of one database: for each subject the spans in which each value may have been committed. A span begins before
 * the COMMIT is sent and ends after the next one is acknowledged, so spans overlap. Times are of `performance.now()`.
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

  /**
   * Returns the values that may have been committed at some time from `fromMs` to `untilMs`, or that such a value has by
   * `untilMs`: a copy of a key expires by the clock, also if the expiry was lifted meanwhile.
   */
  possible(subject: string, fromMs: number, untilMs: number): string[] {
    const spans = this.#spans.get(subject);
    if (!spans) return [NOTHING.value];
    return spans.filter((span) => span.fromMs <= untilMs && span.untilMs >= fromMs).map(({ value }) => value);
  }

  /** Returns every subject of this kind that ever existed. */
  subjects(kind: string): string[] {
    return [...this.#spans.keys()].filter((subject) => subject.startsWith(`${kind}:`));
  }

  /** Returns the changes of a transaction that sees `after`, without noting them. */
  changesTo(after: Snapshot): Snapshot {
    const changes: Snapshot = new Map();
    for (const subject of new Set([...this.#current.keys(), ...after.keys()])) {
      const fact = after.get(subject) ?? NOTHING;
      if (!isSame(fact, this.#currentOf(subject).fact)) changes.set(subject, fact);
    }
    return changes;
  }

  /** Notes that the COMMIT is about to be sent: the changes may be visible from now on. */
  plan(changes: Snapshot, atMs: number): PlannedChange {
    const planned: PlannedChange = new Map();
    for (const [subject, fact] of changes) {
      this.#currentOf(subject);
      const spans = spansOf(fact, atMs);
      this.#spans.get(subject)!.push(...spans);
      planned.set(subject, { fact, spans });
    }
    return planned;
  }

  /** Notes that the COMMIT was acknowledged: the values before are outdated. */
  confirm(planned: PlannedChange, atMs: number): void {
    for (const [subject, state] of planned) this.#replace(subject, state, atMs);
  }

  /** Notes that the transaction was rolled back: its changes were never visible. */
  cancel(planned: PlannedChange): void {
    for (const [subject, { spans }] of planned) {
      const kept = this.#spans.get(subject)!.filter((span) => !spans.includes(span));
      this.#spans.set(subject, kept);
    }
  }

  /**
   * Notes the state of the database after an event that may have lost or decided transactions since `fromMs`. Ends all open
   * intents.
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

  /** Returns the spans of a subject, oldest first. */
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
  // the wall clock is read in whole ms, between two readings of the other
  const beforeMs = performance.now();
  const remainingMs = expiresAtMs - Date.now();
  const afterMs = performance.now();
  return [
    { value, fromMs, untilMs: afterMs + remainingMs },
    {
      value: NOTHING.value,
      fromMs: Math.max(fromMs, beforeMs + remainingMs - 1),
      untilMs: Number.POSITIVE_INFINITY,
    },
  ];
}

function isSame(a: Fact, b: Fact): boolean {
  return a.value === b.value && a.expiresAtMs === b.expiresAtMs;
}
