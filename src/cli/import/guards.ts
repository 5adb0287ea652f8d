import { parseAmount } from '../common/arguments.ts';
import type { Summary } from './summary.ts';

export interface ImportOptions {
  dryRun?: boolean;
  deleteMissing?: boolean;
  /** returns how many of the hotels of the table may be deleted */
  deleteAtMost?: (hotels: number) => number;
  multiline?: boolean;
  expectLines?: number;
  /** false: fails instead of waiting for another import */
  wait: boolean;
  json?: boolean;
}

/** Returns why the source may not be the one that was meant, so that nothing may be imported; undefined if it may. */
export function whyRefused(
  name: string,
  { lines, multiline, deleted }: Summary,
  /** N of a last line `# N hotels`; rejected lines without a readable hotel id; hotels of the table */
  { announced = lines, withoutId, hotels }: { announced?: number; withoutId: number; hotels: number },
  { expectLines = lines, deleteMissing, deleteAtMost = parseAmount('20%'), multiline: mayBe }: ImportOptions,
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
  const allowed = deleteAtMost(hotels);
  if (deleted <= allowed) return undefined;
  return `${deleted} of ${hotels} hotels would be deleted, at most ${allowed} may be (--delete-at-most)`;
}
