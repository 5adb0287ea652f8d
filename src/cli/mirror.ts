import { randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { Failure } from '../lib/failure.ts';
import { examples } from './common/help.ts';
import { count, Progress } from './common/progress.ts';
import { print } from './common/session.ts';

const LIMIT = 1000;
const WAIT_S = 30;
/** Timeout in addition to the requested wait. */
const TIMEOUT_MS = 30_000;
const ATTEMPTS = 8;
const RETRIED = [408, 429, 500, 502, 503, 504];
/** Maximum of a server's Retry-After that is followed. */
const MAX_RETRY_AFTER_S = 60;

interface Page {
  changes: { id: string; hotel: { id: string } | null }[];
  next: string;
  more: boolean;
}

/** Copy of all hotels in memory, as lines of NDJSON by id, and the position of the next change. */
interface Copy {
  lines: Map<string, string>;
  next: string | undefined;
}

/** Adds `mirror`. */
export function addCommand(program: Command): void {
  program
    .command('mirror')
    .description('copy all hotels of a running API into a file of NDJSON, or bring such a copy up to date')
    .argument('<url>', 'base address of the API, including BASE_PATH')
    .argument('<file>', 'the file to write; FILE.next holds where the next call goes on')
    .option('--follow', 'keep the file up to date until Ctrl-C')
    .option(
      '--json',
      'print one JSON document: {"hotels","requests","changed","removed","begun_again","file"}',
    )
    .addHelpText(
      'after',
      `
HOTEL_API_KEY is the API key. The copy is held in memory meanwhile: about 2 GB for a million hotels.
${examples('HOTEL_API_KEY=hk_… hotel-api mirror http://localhost:8080 hotels.ndjson', 'HOTEL_API_KEY=hk_… hotel-api mirror https://api.example/v1 hotels.ndjson --follow')}`,
    )
    .action(mirror);
}

/**
 * Runs `mirror URL FILE`: updates FILE from the API, and with `follow` keeps it current until a signal. FILE.next contains
 * the next position; it is written after FILE, because changes may be applied twice.
 */
async function mirror(
  url: string,
  file: string,
  options: { follow?: boolean; json?: boolean },
): Promise<void> {
  const key = process.env.HOTEL_API_KEY;
  if (!key) throw new Failure('HOTEL_API_KEY must hold a valid key of the deployment');
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new Failure('URL must be an http or https address');
  const base = url.replace(/\/+$/, '');
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort());
  let copy = await load(file);
  const told = { requests: 0, changed: 0, removed: 0, begun_again: 0 };
  const progress = new Progress('mirroring', 0, count('change'));
  let isWritten = copy.next !== undefined;
  try {
    for (let more = true; more || options.follow; ) {
      if (!more && !isWritten) {
        await save(file, copy);
        isWritten = true;
      }
      const waitS = options.follow && !more ? WAIT_S : 0;
      const page = await ask(base, key, copy.next, waitS, stopping.signal);
      if (stopping.signal.aborted) break;
      told.requests++;
      if (page === 'expired') {
        told.begun_again++;
        copy = { lines: new Map(), next: undefined };
        more = true;
        continue;
      }
      for (const { id, hotel } of page.changes) {
        if (hotel) copy.lines.set(id, JSON.stringify(hotel));
        else copy.lines.delete(id);
        if (hotel) told.changed++;
        else told.removed++;
      }
      copy.next = page.next;
      more = page.more;
      if (page.changes.length > 0 || told.requests === 1) isWritten = false;
      progress.at(told.changed + told.removed);
    }
  } finally {
    progress.stop();
  }
  // an incomplete copy mixes several states, and the following changes correct it
  if (!stopping.signal.aborted || options.follow) await save(file, copy);
  else throw new Failure('Interrupted: the file is as it was.');
  const hotels = copy.lines.size;
  print(options.json, { hotels, ...told, file }, `${count('hotel')(hotels)} in ${file}`);
}

async function load(file: string): Promise<Copy> {
  const lines = new Map<string, string>();
  const next = await readFile(`${file}.next`, 'utf8').catch(() => undefined);
  if (next === undefined) return { lines, next };
  try {
    for await (const line of createInterface({ input: createReadStream(file) }))
      lines.set(JSON.parse(line).id, line);
  } catch {
    // the file was removed or replaced: it is copied again
    return { lines: new Map(), next: undefined };
  }
  return { lines, next: next.trim() };
}

/** Writes a file that appears under its name when it is complete. */
async function save(file: string, { lines, next }: Copy): Promise<void> {
  const partial = `${file}.${randomBytes(6).toString('hex')}.partial`;
  const ids = [...lines.keys()].map((id) => Buffer.from(id)).sort(Buffer.compare);
  try {
    const text = Readable.from(
      (function* () {
        for (const id of ids) yield `${lines.get(id.toString())}\n`;
      })(),
    );
    await pipeline(text, createWriteStream(partial, { flags: 'wx' }));
    await rename(partial, file);
    if (next === undefined) return;
    await writeFile(partial, `${next}\n`, { flag: 'wx' });
    await rename(partial, `${file}.next`);
  } catch (error) {
    await rm(partial, { force: true });
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Failure(`cannot write ${file} (${code}): ${message}`);
  }
}

/** Returns the next page, or 'expired' after 410. Retries temporary errors. Throws a `Failure`. */
async function ask(
  base: string,
  key: string,
  next: string | undefined,
  waitS: number,
  signal: AbortSignal,
): Promise<Page | 'expired'> {
  const after = next === undefined ? '' : `&after=${encodeURIComponent(next)}`;
  const url = `${base}/changes?limit=${LIMIT}&wait=${waitS}${after}`;
  for (let attempt = 1; ; attempt++) {
    let fault: string;
    let waitMs = 100 * 2 ** attempt * (1 + Math.random());
    try {
      const response = await fetch(url, {
        headers: { 'x-api-key': key },
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS + 1000 * waitS)]),
      });
      const text = await response.text();
      const { status } = response;
      if (response.ok) return readPage(text, base);
      if (status === 410) return 'expired';
      fault = `${base} answers ${status} ${text.slice(0, 200)}`;
      if (!RETRIED.includes(status)) throw new Failure(fault);
      const retryAfterS = Number(response.headers.get('retry-after') ?? 0) || 0;
      waitMs = Math.max(waitMs, 1000 * Math.min(retryAfterS, MAX_RETRY_AFTER_S));
    } catch (error) {
      if (error instanceof Failure) throw error;
      if (signal.aborted) return { changes: [], next: next ?? '', more: true };
      const { message, cause } = error as Error;
      fault = `${base}: ${(cause as Error | undefined)?.message ?? message}`;
    }
    if (attempt === ATTEMPTS) throw new Failure(fault);
    await sleep(waitMs, undefined, { signal }).catch(() => {});
  }
}

/** Reads the body of a page. Throws a `Failure` for anything else, so that no other server's response replaces the copy. */
function readPage(text: string, base: string): Page {
  try {
    const page = JSON.parse(text) as Page;
    const isSound = page.changes.every(
      ({ id, hotel }) => typeof id === 'string' && (hotel === null || hotel.id === id),
    );
    if (isSound && typeof page.next === 'string' && typeof page.more === 'boolean') return page;
  } catch {
    // no JSON, or other fields
  }
  throw new Failure(
    `${base} answers 200 with no page of changes. Check the address: it ends before /changes`,
  );
}
