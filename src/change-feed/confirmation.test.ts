import { describe, expect, it } from 'vitest';
import { Confirmation } from './confirmation.ts';

/** Receives a message every 500 ms from one time to another; returns the time of the last one after a silence. */
function receiveEach500(confirmation: Confirmation, fromMs: number, toMs: number, isKept = true) {
  let silenceMs: number | undefined;
  for (let nowMs = fromMs; nowMs <= toMs; nowMs += 500)
    if (confirmation.receive(isKept, nowMs)) silenceMs = nowMs;
  return silenceMs;
}

describe('reads from Redis', () => {
  it('are confirmed after 5 s of messages without a silence', () => {
    const confirmation = new Confirmation(0);
    receiveEach500(confirmation, 500, 4_500);
    expect(confirmation.confirmedMs).toBe(-Infinity);
    receiveEach500(confirmation, 5_000, 60_000);
    expect(confirmation.confirmedMs).toBe(55_000);
  });

  it('are not confirmed by a burst after a silence, until 5 s later', () => {
    const confirmation = new Confirmation(0);
    receiveEach500(confirmation, 500, 20_000);
    const burst = Array.from({ length: 24 }, (_, i) => confirmation.receive(true, 32_000 + i));
    expect(burst).toEqual([true, ...new Array(23).fill(false)]);
    expect(confirmation.confirmedMs).toBe(15_000);
    receiveEach500(confirmation, 32_500, 36_500);
    expect(confirmation.confirmedMs).toBe(15_000);
    receiveEach500(confirmation, 37_000, 37_000);
    expect(confirmation.confirmedMs).toBe(32_000);
  });

  it('are not confirmed while the invalidator cannot find its marker, nor for 5 s afterwards', () => {
    const confirmation = new Confirmation(0);
    receiveEach500(confirmation, 500, 20_000);
    receiveEach500(confirmation, 20_500, 40_000, false);
    expect(receiveEach500(confirmation, 40_500, 44_500)).toBeUndefined();
    expect(confirmation.confirmedMs).toBe(15_000);
    receiveEach500(confirmation, 45_000, 45_000);
    expect(confirmation.confirmedMs).toBe(40_000);
  });
});
