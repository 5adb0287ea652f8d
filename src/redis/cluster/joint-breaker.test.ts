import { expect, it } from 'vitest';
import { JointBreaker } from './joint-breaker.ts';

it('several breakers are reported as one: the first that opens, the last that closes', () => {
  const announced: [open: boolean, reason: string][] = [];
  const joint = new JointBreaker((open, reason) => announced.push([open, reason]));
  joint.changed('the cluster', true, 'no node answers');
  joint.changed('a:1', true, 'it is late');
  joint.changed('the cluster', false, 'it answers again');
  joint.changed('b:1', false, 'it has no slots any more');
  expect(announced).toEqual([[true, 'the cluster: no node answers']]);
  joint.changed('a:1', false, 'it has no slots any more');
  joint.changed('a:1', false, 'it answers again');
  expect(announced.slice(1)).toEqual([[false, 'a:1: it has no slots any more']]);
});
