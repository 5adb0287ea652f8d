import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { Continuity, Numbering } from './continuity.ts';
import { type Changes, type FeedMessage, type HotelChange, type Place, payloadsOf } from './messages.ts';

const NOTHING: Changes = { hotels: [], keys: [], members: [], truncated: [], movesPositions: false };
/** The id of a hotel that fills a message. */
const FILLING = 'x'.repeat(5_000);

/** The invalidators, one after the other, and what PostgreSQL holds of what they told. */
class Feed {
  #told: Place = ['', 0];
  #term = '';
  #numbering = new Numbering('', this.#told);
  #terms = 0;

  begin(): void {
    this.#term = `term-${++this.#terms}`;
    this.#numbering = new Numbering(this.#term, this.#told);
  }

  /** What is sent together: changes in so many messages, or a sign of life where there are none. */
  send(parts: number, lost = false): FeedMessage[] {
    const hotels = Array.from({ length: parts }, (): HotelChange => [FILLING, 1, null, null]);
    const frame = { e: this.#term, o: this.#terms, b: null, ...(lost && { l: true as const }) };
    const generations = { before: '', after: '' };
    const payloads = payloadsOf({ ...NOTHING, hotels }, frame, generations, this.#numbering);
    this.#told = [this.#term, this.#numbering.announcedCount];
    return payloads.map((payload) => JSON.parse(payload));
  }

  /** The session of the term ends before what it was about to tell is committed. */
  sendInVain(): void {
    const announced = this.#told;
    this.send(2);
    this.#told = announced;
  }
}

let feed: Feed;
let continuity: Continuity;

/** Hears these; whether nothing was told before each of them that was not heard. */
const receive = (messages: FeedMessage[]) => messages.map((message) => continuity.receive(message));

beforeEach(() => {
  feed = new Feed();
  continuity = new Continuity();
  feed.begin();
  expect(receive(feed.send(0))).toEqual([false]);
  expect(receive(feed.send(2))).toEqual([true, true]);
});

describe('nothing was missed', () => {
  it('where each message follows the one before, over terms too', () => {
    expect(receive([...feed.send(0), ...feed.send(3), ...feed.send(0)])).not.toContain(false);
    feed.begin();
    expect(receive([...feed.send(1), ...feed.send(0)])).toEqual([true, true]);
  });

  it('where only signs of life were, or nothing', () => {
    continuity.breakOff();
    feed.send(0);
    expect(receive(feed.send(0))).toEqual([true]);
    continuity.breakOff();
    expect(receive(feed.send(2))).toEqual([true, true]);
  });

  it('where another term has begun meanwhile, and has told nothing, or tells it now', () => {
    continuity.breakOff();
    feed.sendInVain();
    feed.begin();
    feed.send(0);
    feed.send(0);
    expect(receive(feed.send(0))).toEqual([true]);
    continuity.breakOff();
    feed.send(0);
    expect(receive(feed.send(1))).toEqual([true]);
  });
});

describe('something may have been missed', () => {
  it('where changes were told, or that Redis had lost some', () => {
    continuity.breakOff();
    feed.send(1);
    expect(receive(feed.send(0))).toEqual([false]);
    continuity.breakOff();
    feed.send(0, true);
    expect(receive(feed.send(0))).toEqual([false]);
  });

  it('where the connection broke between two of several that were sent together', () => {
    const [first, , third] = feed.send(3);
    continuity.receive(first!);
    continuity.breakOff();
    expect(receive([third!])).toEqual([false]);
    continuity.receive(feed.send(2)[0]!);
    continuity.breakOff();
    expect(receive(feed.send(0))).toEqual([false]);
  });

  it('where another term has told changes, at its begin or later', () => {
    for (const announced of [[1], [0, 1, 0]]) {
      continuity.breakOff();
      feed.begin();
      for (const parts of announced) feed.send(parts);
      expect(receive(feed.send(0))).toEqual([false]);
    }
  });

  it('where PostgreSQL has lost what was told, and tells it again', () => {
    continuity.breakOff();
    feed = new Feed();
    feed.begin();
    feed.send(0);
    feed.begin();
    expect(receive(feed.send(2))).toEqual([false, true]);
  });

  it('where a number is left out without a reconnect', () => {
    feed.send(1);
    expect(receive(feed.send(0))).toEqual([false]);
  });
});

const step = fc.oneof(
  fc.record({ send: fc.integer({ min: 0, max: 3 }), lost: fc.boolean(), received: fc.nat(3) }),
  fc.constantFrom('break' as const, 'begin' as const, 'in vain' as const),
);

it('whatever happens, changes that were not heard do not stay unknown', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const feed = new Feed();
      const continuity = new Continuity();
      feed.begin();
      let missed = true;
      let termsSince = 0;
      for (const step of steps) {
        if (step === 'break') continuity.breakOff();
        else if (step === 'begin' || step === 'in vain') {
          if (step === 'in vain') feed.sendInVain();
          feed.begin();
          termsSince++;
        } else {
          const messages = feed.send(step.send, step.lost);
          messages.forEach((message, i) => {
            // of those sent together the connection takes the first ones with it, or the last
            if (step.received % 2 === 0 ? i < step.received : i > step.received) {
              const complete = continuity.receive(message);
              if (missed) expect(complete).toBe(false);
              else if (termsSince <= 1) expect(complete).toBe(true);
              missed = false;
              termsSince = 0;
            } else {
              if (message.h || message.l) missed = true;
              continuity.breakOff();
            }
          });
        }
      }
    }),
    { numRuns: 2_000 },
  );
});
