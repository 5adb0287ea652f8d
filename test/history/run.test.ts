import { expect, it } from 'vitest';
import { describe } from './run.ts';

it('describes a failure with its sentence first and last, whichever end of the output is cut off', () => {
  const failure = { sentence: 'instance 0: wrong', stepsBegun: 1, details: ['details'] };
  const lines = describe({ seed: 7, steps: [{ do: 'pause', ms: 5 }], failure }).split('\n');
  expect(lines[0]).toContain('instance 0: wrong');
  expect(lines.at(-1)).toBe('seed 7: instance 0: wrong');
  expect(lines).toContain('  {"do":"pause","ms":5}');
});
