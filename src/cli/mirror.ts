import { setTimeout as sleep } from 'node:timers/promises';
import { Failure } from '../lib/failure.ts';
import type { CliCommand } from './common/help.ts';
import { count, Progress } from './common/progress.ts';
import { print } from './common/session.ts';
import { Copy } from './mirror/copy.ts';
import { requestPage } from './mirror/request-page.ts';

const WAIT_S = 30;
/** Wait for changes while received ones are not yet written to the file. */
const SHORT_WAIT_S = 1;
/** Minimum time between two requests while there is nothing new, whatever a proxy answers. */
const PAUSE_MS = 250;
/** Maximum share of the time that `--follow` spends on writing the file. */
const SAVE_SHARE = 0.1;

export function addCommand(program: CliCommand): void {
  program
    .command('mirror')
    .description('copy all hotels of a running API into a file of NDJSON, or bring such a copy up to date')
    .argument('<url>', 'base address of the API, including BASE_PATH')
    .argument('<file>', 'the file to write; FILE.next holds the position of the next change')
    .option('--follow', 'keep the file up to date until Ctrl-C')
    .json('{"hotels","requests","changed","removed","begun_again","file"}')
    .addHelpText(
      'after',
      `
HOTEL_API_KEY is the API key. The copy is held in memory meanwhile: about 2 GB for a million hotels.`,
    )
    .examples(
      'HOTEL_API_KEY=hk_… hotel-api mirror http://localhost:8080 hotels.ndjson',
      'HOTEL_API_KEY=hk_… hotel-api mirror https://api.example/v1 hotels.ndjson --follow',
    )
    .action(mirror);
}

/**
 * Runs `mirror URL FILE`: updates FILE from the API, and with `follow` keeps it current until a signal. FILE always holds one
 * snapshot: it is written when there are no more changes.
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
  const api = { base, key, signal: stopping.signal };
  const copy = await Copy.open(file, base);
  const counts = { requests: 0, changed: 0, removed: 0, begun_again: 0 };
  const progress = new Progress('mirroring', 0, count('change'));
  const log = (fault: string) => progress.log(fault);
  let isWritten = copy.next !== undefined;
  let more = true;
  let saveAtMs = 0;
  const save = async () => {
    const beganMs = performance.now();
    await copy.save();
    isWritten = true;
    saveAtMs = performance.now() + (performance.now() - beganMs) / SAVE_SHARE;
  };
  try {
    while ((more || options.follow) && !stopping.signal.aborted) {
      if (!more && !isWritten && performance.now() >= saveAtMs) await save();
      const waitS = !more && options.follow ? (isWritten ? WAIT_S : SHORT_WAIT_S) : 0;
      const isKnown = counts.requests > 0;
      const retries = { isKnown, forever: isKnown && !!options.follow, log };
      const page = await requestPage(api, copy.next, waitS, retries);
      if (page === undefined) break;
      counts.requests++;
      if (page === 'expired') {
        counts.begun_again++;
        copy.beginAgain();
        more = true;
        continue;
      }
      for (const { id, hotel } of page.changes) {
        if (hotel) copy.lines.set(id, JSON.stringify(hotel));
        else copy.lines.delete(id);
        if (hotel) counts.changed++;
        else counts.removed++;
      }
      const isNew = page.changes.length > 0 || copy.next === undefined;
      copy.next = page.next;
      more = page.more;
      if (isNew) isWritten = false;
      else if (options.follow) await sleep(PAUSE_MS, undefined, { signal: stopping.signal }).catch(() => {});
      progress.at(counts.changed + counts.removed);
    }
    if (more) throw new Failure(`Interrupted: ${file} is as it was.`);
    if (!isWritten) await save();
  } finally {
    progress.stop();
  }
  const hotels = copy.lines.size;
  print(options.json, { hotels, ...counts, file }, `${count('hotel')(hotels)} in ${file}`);
}
