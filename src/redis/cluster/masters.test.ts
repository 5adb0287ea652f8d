import { expect, it } from 'vitest';
import { jointly } from './masters.ts';

it('several breakers are reported as one: the first that opens, the last that closes', () => {
  const announced: [open: boolean, reason: string][] = [];
  const report = jointly((open, reason) => announced.push([open, reason]));
  report('the cluster', true, 'no node answers');
  report('a:1', true, 'it is late');
  report('the cluster', false, 'it answers again');
  report('b:1', false, 'it has no slots any more');
  expect(announced).toEqual([[true, 'the cluster: no node answers']]);
  report('a:1', false, 'it has no slots any more');
  report('a:1', false, 'it answers again');
  expect(announced.slice(1)).toEqual([[false, 'a:1: it has no slots any more']]);
});
