import { expect } from 'vitest';
import type { CacheMemory } from './memory.ts';

/** Bytes that are compared at both ends of each part: what is written beyond a part begins there. */
const EDGE_BYTES = 65_536;
/** Parts of a memory (src/wasm/assembly/layout.ts) in their order. */
const PARTS = [
  ...(['input', 'prefix', 'scratch', 'command', 'reply', 'response'] as const),
  ...(['window', 'pointerCache', 'arena', 'output'] as const),
];
export type Part = (typeof PARTS)[number];

/** Returns a function that expects that only these parts have changed since its last call. The window is to stay as it is. */
export function watchParts({ wasm, bytes, window }: CacheMemory): (...changed: Part[]) => void {
  const { PREFIX, SCRATCH, COMMAND, REPLY, RESPONSE, WINDOW } = wasm;
  const pointerCache = WINDOW.value + window.byteLength + 56;
  const arena = pointerCache + 160 * 0x10000;
  const starts = [
    ...[0, PREFIX.value, SCRATCH.value, COMMAND.value, REPLY.value, RESPONSE.value],
    ...[WINDOW.value, pointerCache, arena, wasm.outputStart.value >>> 0, bytes.length],
  ];
  const edges = PARTS.flatMap((part, i) => {
    const [start, end] = [starts[i]!, starts[i + 1]!];
    const length = Math.min(EDGE_BYTES, end - start);
    const views = [bytes.subarray(start, start + length), bytes.subarray(end - length, end)];
    return views.map((view) => ({ part, view, before: Buffer.from(view) }));
  });
  const cells = Buffer.from(window.buffer, window.byteOffset, window.byteLength);
  const cellsBefore = Buffer.from(cells);
  return (...changed) => {
    for (const { part, view, before } of edges)
      if (changed.includes(part)) before.set(view);
      else if (!view.equals(before)) expect.fail(`changed beside ${changed.join()}: ${part}`);
    if (!cells.equals(cellsBefore)) expect.fail(`changed beside ${changed.join()}: cells of the window`);
  };
}
