import { expect, it } from 'vitest';
import { traceContextOf } from './trace-context.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

it('reads the context, with what the future adds', () => {
  for (const header of [`00-${TRACE}-${SPAN}-00`, `cc-${TRACE}-${SPAN}-01-what-the-future-adds`])
    expect(traceContextOf(header)).toEqual({ trace_id: TRACE, span_id: SPAN });
});

it.each([
  '',
  'ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  `00-${'0'.repeat(32)}-${SPAN}-01`,
  `00-${TRACE}-${'0'.repeat(16)}-01`,
  `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  `00-${TRACE}-${SPAN}`,
  `00-${TRACE}${SPAN}-01`,
  `x00-${TRACE}-${SPAN}-01`,
])('ignores %j', (header) => {
  expect(traceContextOf(header)).toBeUndefined();
});
