import { Failure } from '../../lib/failure.ts';
import type { Summary } from './summary.ts';

/** Failure of an import whose source may not be the one that was meant. Its staged lines are useless. */
export class Refusal extends Failure {}

/** What an import is told about its source. */
export interface Expectations {
  expectLines?: number;
  deleteMissing?: boolean;
  deleteAtMost?: { hotels: number } | { percent: number };
  multiline?: boolean;
}

/** What an import finds out about its source and the table. */
export interface Findings {
  name: string;
  /** N of a last line `# N hotels` */
  announced: number | undefined;
  /** rejected lines without a readable hotel id */
  withoutId: number;
  /** hotels of the table */
  hotels: number;
}

/** Returns why the source may not be the one that was meant, so that nothing may be imported; undefined if it may. */
export function whyRefused(
  { lines, multiline, deleted }: Summary,
  { name, announced = lines, withoutId, hotels }: Findings,
  { expectLines = lines, deleteMissing, deleteAtMost = { percent: 20 }, multiline: mayBe }: Expectations,
): string | undefined {
  if (lines === 0) return `${name}: no hotel in the input`;
  if (lines !== expectLines)
    return `${name} has ${lines} lines with hotels, --expect-lines says ${expectLines}`;
  if (lines !== announced) return `${name} has ${lines} lines with hotels, its last line says ${announced}`;
  if (!deleteMissing) return undefined;
  if (withoutId > 0)
    return `${withoutId} rejected line(s) have no readable id, so --delete-missing might delete their hotels: correct them in the whole file`;
  if (multiline > 0 && !mayBe)
    return `${multiline} row(s) span several lines, as if a stray quote had swallowed hotels, which --delete-missing would delete: if they are right, add --multiline`;
  const allowed =
    'hotels' in deleteAtMost ? deleteAtMost.hotels : Math.floor((hotels * deleteAtMost.percent) / 100);
  if (deleted <= allowed) return undefined;
  return `${deleted} of ${hotels} hotels would be deleted, at most ${allowed} may be (--delete-at-most)`;
}
