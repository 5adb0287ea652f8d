import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { Continuity } from './continuity.ts';
import {
  type FeedMessage,
  type HotelChange,
  type MessageId,
  NO_CHANGES,
  Numbering,
  payloadsOf,
} from './messages.ts';

/** Id of a hotel that fills a message. */
const FILLING = 'x'.repeat(5_000);

/** The invalidators, one after the other, and their announcements in PostgreSQL. */
class Feed {
  #position: MessageId = ['', 0];
  #term = '';
  #numbering = new Numbering('', this.#position);
  #terms = 0;

  begin(): void {
    this.#term = `term-${++this.#terms}`;
    this.#numbering = new Numbering(this.#term, this.#position);
  }

  /** Sends changes in this number of messages together, or a heartbeat for 0. */
  send(parts: number, lost = false): FeedMessage[] {
    const hotels = Array.from({ length: parts }, (): HotelChange => [FILLING, 1, null, null]);
    const frame = { e: this.#term, o: this.#terms, b: null, ...(lost && { l: true as const }) };
    const generations = { before: '', after: '' };
    const payloads = payloadsOf({ ...NO_CHANGES, hotels }, frame, generations, this.#numbering);
    this.#position = [this.#term, this.#numbering.announcedCount];
    return payloads.map((payload) => JSON.parse(payload));
  }

  /** Ends the session of the term before its announcement is committed. */
  sendInVain(): void {
    const announced = this.#position;
    this.send(2);
    this.#position = announced;
  }
}

let feed: Feed;
let continuity: Continuity;

/** Receives these messages; returns for each whether nothing announced before it was missed. */
const receive = (messages: FeedMessage[]) => messages.map((message) => continuity.receive(message));

beforeEach(() => {
  feed = new Feed();
  continuity = new Continuity();
  feed.begin();
  expect(receive(feed.send(0))).toEqual([false]);
  expect(receive(feed.send(2))).toEqual([true, true]);
});

describe('no change was missed', () => {
  it('if each message follows the one before, also across terms', () => {
    expect(receive([...feed.send(0), ...feed.send(3), ...feed.send(0)])).not.toContain(false);
    feed.begin();
    expect(receive([...feed.send(1), ...feed.send(0)])).toEqual([true, true]);
  });

  it('if only heartbeats are missing, or nothing', () => {
    continuity.breakOff();
    feed.send(0);
    expect(receive(feed.send(0))).toEqual([true]);
    continuity.breakOff();
    expect(receive(feed.send(2))).toEqual([true, true]);
  });

  it('if another term has begun meanwhile and has announced nothing, or announces changes with this message', () => {
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

describe('a change may have been missed', () => {
  it('if changes or a loss in Redis were announced', () => {
    continuity.breakOff();
    feed.send(1);
    expect(receive(feed.send(0))).toEqual([false]);
    continuity.breakOff();
    feed.send(0, true);
    expect(receive(feed.send(0))).toEqual([false]);
  });

  it('if the connection broke between two messages that were sent together', () => {
    const [first, , third] = feed.send(3);
    continuity.receive(first!);
    continuity.breakOff();
    expect(receive([third!])).toEqual([false]);
    continuity.receive(feed.send(2)[0]!);
    continuity.breakOff();
    expect(receive(feed.send(0))).toEqual([false]);
  });

  it('if another term has announced changes, in its first message or later', () => {
    for (const announced of [[1], [0, 1, 0]]) {
      continuity.breakOff();
      feed.begin();
      for (const parts of announced) feed.send(parts);
      expect(receive(feed.send(0))).toEqual([false]);
    }
  });

  it('if PostgreSQL has lost an announcement and repeats it', () => {
    continuity.breakOff();
    feed = new Feed();
    feed.begin();
    feed.send(0);
    feed.begin();
    expect(receive(feed.send(2))).toEqual([false, true]);
  });

  it('if a number is missing without a reconnect', () => {
    feed.send(1);
    expect(receive(feed.send(0))).toEqual([false]);
  });
});

const step = fc.oneof(
  fc.record({ send: fc.integer({ min: 0, max: 3 }), lost: fc.boolean(), received: fc.nat(3) }),
  fc.constantFrom('break' as const, 'begin' as const, 'in vain' as const),
);

it('after any sequence of events, no missed change remains unnoticed', () => {
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
            // of messages sent together the connection loses the first ones or the last ones
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
