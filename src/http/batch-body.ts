import type { ErrorCode } from '../errors.ts';
import { MAX_KEYS } from '../hotels/slab/slab.ts';
import { readRegistryId } from './ids.ts';

const [QUOTE, BACKSLASH, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = Buffer.from('"\\[]{}');
const utf8 = new TextDecoder('utf-8', { fatal: true });
/** A number that is written with a fraction or an exponent; it may also stand in a string, so it only warns. */
const MAY_HOLD_NO_INTEGER = /\d[.eE]/;

/** The ids a batch asks for, each once, in the order of their first places; or what is wrong with the body. */
export type BatchIds = { ids: string[] } | { error: ErrorCode };

/** Reads the body of a batch by channel ids. */
export function readChannelBatch(body: Uint8Array): BatchIds {
  const json = parse(body);
  if (json === undefined) return { error: 'bodyNotJson' };
  const asked = (json.value as { channel_ids?: unknown } | null)?.channel_ids;
  if (!Array.isArray(asked)) return { error: 'channelIdsMissing' };
  if (asked.length > MAX_KEYS) return { error: 'tooManyChannelIds' };
  const ids = new Set<string>();
  for (const id of asked) {
    if (typeof id !== 'string') return { error: 'channelIdNotString' };
    ids.add(id);
  }
  return { ids: [...ids] };
}

/** Reads the body of a batch by registry ids: integers and integer-valued strings, as canonical digits. */
export function readRegistryBatch(body: Uint8Array): BatchIds {
  const json = parse(body);
  if (json === undefined) return { error: 'bodyNotJson' };
  let asked = (json.value as { registry_ids?: unknown } | null)?.registry_ids;
  if (!Array.isArray(asked)) return { error: 'registryIdsMissing' };
  if (asked.length > MAX_KEYS) return { error: 'tooManyRegistryIds' };
  if (
    MAY_HOLD_NO_INTEGER.test(json.text) ||
    asked.some((id) => typeof id === 'number' && !Number.isSafeInteger(id))
  ) {
    const parsed = parseKeepingNumbers(json.text);
    if (parsed === undefined) return { error: 'bodyNotJson' };
    asked = (parsed as { registry_ids: unknown[] }).registry_ids;
  }
  const ids = new Set<string>();
  for (const element of asked as unknown[]) {
    const written = element instanceof WrittenNumber ? element.source : element;
    if (typeof written !== 'string' && typeof written !== 'number') return { error: 'registryIdNotInteger' };
    const id = readRegistryId(String(written));
    if (id === undefined) return { error: 'registryIdNotInteger' };
    ids.add(id);
  }
  return { ids: [...ids] };
}

function parse(body: Uint8Array): { text: string; value: unknown } | undefined {
  if (isUnbalanced(body)) return undefined;
  try {
    const text = utf8.decode(body);
    return { text, value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** True when brackets are left open; only looks at them and at strings. A million of them hold a parser for 150 ms. */
function isUnbalanced(body: Uint8Array): boolean {
  let depth = 0;
  for (let i = 0; i < body.length; i++) {
    switch (body[i]) {
      case QUOTE:
        for (i++; i < body.length && body[i] !== QUOTE; i++) if (body[i] === BACKSLASH) i++;
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        depth++;
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        depth--;
    }
  }
  return depth !== 0;
}

/** A number of a JSON text as it is written there. */
class WrittenNumber {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
}

/**
 * Parses JSON (known to be sound) with every number as it is written: 1e3 and 2^53 + 1 are told apart. Undefined
 * where it is nested too deeply for that, thousands of levels: the callback is called from the innermost outwards.
 */
function parseKeepingNumbers(text: string): unknown {
  const keep = (_: string, value: unknown, context: { source: string }) =>
    typeof value === 'number' ? new WrittenNumber(context.source) : value;
  try {
    return JSON.parse(text, keep as (key: string, value: unknown) => unknown);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
