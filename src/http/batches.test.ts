import { expect, it } from 'vitest';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import { showMonotonic } from '../lib/clock.fixture.ts';
import type { Exchange } from './exchange.ts';
import { batches } from './operations.ts';

it.each([
  [599, false, true],
  [600, true, true],
  [600, false, false],
])('a batch that Redis completes after %i ms; valid key: %s; sent: %s', async (afterMs, isValid, isSent) => {
  let nowMs = 0;
  showMonotonic(() => nowMs);
  const bodies: string[] = [];
  const principal = { collection: null, keyId: 'k', view: 'full' };
  const exchange = { principal, ok: (body: Buffer) => bodies.push(`${body}`) } as unknown as Exchange;
  const output = Buffer.from('[1]');
  const respond = batches({
    local: { gatherBody: () => ({ status: 0, misses: 900 }) },
    misses: { wayOf: () => 'redis' },
    redisBatch: {
      complete: async (...[, , , finish]: ((result: Buffer, hotels: number) => Promise<void>)[]) => {
        nowMs = afterMs;
        const finished = finish!(output, 1);
        output.fill('-');
        await finished;
      },
    },
    sizes: new HotelSizes(),
    access: { mayStillAnswer: async () => isValid },
  } as never);
  await respond(exchange, 'id', Buffer.of(), true);
  expect(bodies).toEqual(isSent ? ['[1]'] : []);
});
