import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import type { Replacement } from './hooks.ts';

const MAIN = new URL('main.ts', import.meta.url).pathname;

interface Mutation extends Replacement {
  /** what it breaks */
  name: string;
  /** seed with which it is found; undefined: it is not */
  seed: number | undefined;
}

const mutation = (name: string, file: string, from: string, to: string, seed?: number): Mutation => ({
  ...{ name, file, from, to, seed },
});

/** Faults of the service, one line each, that a simulation must find. */
export const MUTATIONS: Mutation[] = [
  mutation(
    'the label is that of the applied log, not that of the snapshot',
    'src/postgres/label.ts',
    'return { label: mark.label, rows',
    'return { label: applied()?.position ?? mark.label, rows',
    20018,
  ),
  mutation(
    'a label is one too high',
    'src/postgres/label.ts',
    'return { label: mark.label, rows',
    'return { label: mark.label + 1, rows',
    5,
  ),
  mutation(
    'a replica that is behind is believed',
    'src/postgres/label.ts',
    'if (!mark || mark.label < (before.position ?? 0)) return undefined;',
    'if (!mark) return undefined;',
    205,
  ),
  mutation(
    'changes of hotels raise no bucket',
    'src/log/raise-window.ts',
    "window.raise('id', id, position);",
    '',
    22,
  ),
  mutation(
    'new channel ids raise no bucket',
    'src/log/raise-window.ts',
    "if (channelId) window.raise('channel', channelId, position);",
    '',
    60008,
  ),
  mutation(
    'changes of anything do not raise the floor',
    'src/log/raise-window.ts',
    "if (kind.startsWith('all_')) window.raiseFloor(position);",
    "if (kind.startsWith('all_')) return;",
    1,
  ),
  mutation(
    'changes of keys raise no bucket',
    'src/log/raise-window.ts',
    "for (const id of ids) window.raise('key', id, position);",
    ';',
    1,
  ),
  mutation(
    'the floor is not compared',
    'src/log/window.ts',
    'return bucket >= 0 && label >= this.floor && label >= this.#cells[bucket]!;',
    'return bucket >= 0 && label >= this.#cells[bucket]!;',
    1,
  ),
  mutation(
    'entries and absences from Redis are not compared with the window',
    'src/cache/memory.ts',
    'new Float64Array(buffer, wasm.WINDOW.value, WINDOW_BUCKETS + 1)',
    'new Float64Array(WINDOW_BUCKETS + 1)',
    1,
  ),
  mutation(
    'a load is stored although a newer change is known',
    'src/cache/hotel-reader.ts',
    "if (isOfHistory() && window.covers('id', entry.id, entry.label)) local.store(entry, beganMs);",
    'if (isOfHistory()) local.store(entry, beganMs);',
  ),
  mutation(
    'a load is shared across a change',
    'src/cluster/apply-log.ts',
    'this.#caches.reader.loader.forget(namespace, key);',
    '',
  ),
  mutation(
    'a change does not drop the local entry',
    'src/cluster/apply-log.ts',
    'this.#caches.local?.drop(namespace, key);',
    '',
    3,
  ),
  mutation(
    'a change of everything leaves the local cache',
    'src/cluster/apply-log.ts',
    `      case 'all_hotels':
        reader.loader.forgetAll();
        local?.clear();`,
    `      case 'all_hotels':
        reader.loader.forgetAll();`,
    1,
  ),
  mutation(
    'a bulk insert or delete leaves the positions of the list',
    'src/cluster/apply-log.ts',
    'if (row.moves) pageIndex.forget();',
    '',
    5,
  ),
  mutation(
    'another history leaves the local cache',
    'src/cluster/apply-log.ts',
    `    local?.clear();
    this.#useServer(server);`,
    'this.#useServer(server);',
    9,
  ),
  mutation(
    'a restart leaves what was read of a lost future',
    'src/cluster/apply-log.ts',
    'local?.dropSince(freshness.asOfMs - this.#longestReadMs);',
    '',
    1180,
  ),
  mutation(
    'a restart leaves the positions of the list',
    'src/cluster/apply-log.ts',
    `    pageIndex.forget();
    apiKeys.clear();`,
    'apiKeys.clear();',
    2755,
  ),
  mutation(
    'a change of a key is not applied',
    'src/cluster/apply-log.ts',
    'for (const sha256 of row.ids) apiKeys.changed(sha256);',
    '',
    1,
  ),
  mutation(
    'a change of members is not applied',
    'src/cluster/apply-log.ts',
    'collections.changed(row.collection, row.ids);',
    '',
    8,
  ),
  mutation(
    'a change of a collection is not applied',
    'src/cluster/apply-log.ts',
    'for (const id of row.ids) collections.changed(id, null);',
    '',
    6,
  ),
  mutation(
    'reads that a row begins may lack it',
    'src/cluster/apply-log.ts',
    'this.#applied.position = row.position;',
    '',
    50024,
  ),
  mutation(
    'inserts and deletes do not move the list',
    'src/cluster/apply-log.ts',
    'pageIndex.moved(id);',
    '',
    5,
  ),
  mutation(
    'news count from their arrival',
    'src/cluster/apply-log.ts',
    'if (asOfMs !== undefined) freshness.current(fromSystemMs(asOfMs));',
    'if (asOfMs !== undefined) freshness.current(fromSystemMs(asOfMs) + 5_000);',
    17,
  ),
  mutation(
    'the sequencer is not called',
    'src/log/follower.ts',
    'const poll = await withDeadline(connection.sequenceAndPoll(this.#place), SEQUENCE_TIMEOUT_MS);',
    'const poll = first;',
    1,
  ),
  mutation(
    'a database that has gone back is not noticed',
    'src/log/follower.ts',
    'if (!poll.isContinued) {',
    'if (false) {',
    163,
  ),
  mutation(
    'a copy is followed by the history that it shows, if another was followed before',
    'src/log/follower.ts',
    'if (poll.isDue || this.#history !== undefined)',
    'if (poll.isDue)',
  ),
  mutation(
    'an outage forgives nothing',
    'src/log/freshness.ts',
    'this.#asOfMs > -Infinity && (this.#lateAnswerMs === undefined || nowMs - this.#lateAnswerMs < GRACE_MS)',
    'false',
    8,
  ),
  mutation(
    'values in Redis have the same names in every history',
    'src/cluster/redis-prefix.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text
    "return hash('sha256', `${history} ${server}`, 'base64url').slice(0, 12);",
    "return hash('sha256', 'hotels', 'base64url').slice(0, 12);",
    2,
  ),
  mutation(
    'a key in Redis is not compared with the window',
    'src/auth/api-key-cache.ts',
    "const found = read && this.#window.covers('key', sha256, read.label) ? read : undefined;",
    'const found = read;',
    1,
  ),
  mutation('a breaker never closes', 'src/lib/circuit-breaker.ts', '      this.#open = false;\n', '', 3),
  mutation(
    'mirrors do not get what is in the queue',
    'src/changes/changes-reader.ts',
    'changes: removalsFirst(isWhole ? all : changes),',
    'changes: removalsFirst(changes),',
    1,
  ),
  mutation(
    'mirrors keep tokens of another history',
    'src/changes/changes-reader.ts',
    'if (token.history !== state.history || token.position < state.oldest) throw new Expired();',
    '',
    1,
  ),
  mutation(
    'a mirror is up to date while ids are still to be listed',
    'src/changes/changes-reader.ts',
    '      !state.isTruncated &&\n      !state.isBusy;',
    '      !state.isTruncated;',
    1,
  ),
  mutation(
    'waiting mirrors are not woken',
    'src/changes/position-watch.ts',
    'this.#wake((waiter) => waiter.position < place.position);',
    '',
    5,
  ),
  mutation(
    'members are believed while the log is not followed',
    'src/collections/collections.ts',
    'if (!this.#options.freshness.isSure(nowMs)) return undefined;',
    '',
    221,
  ),
];

/** Runs the simulation with a mutation, or without; returns what it printed, undefined if every promise was kept. */
export function simulate(mutated: Replacement | undefined, args: string[]): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const env = { ...process.env, ...(mutated && { SIM_MUTATION: JSON.stringify(mutated) }) };
  const child = spawn(process.execPath, [MAIN, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  child.on('close', (code) => resolve(code === 0 ? undefined : output));
  return promise;
}

/**
 * Runs each mutation with its seed, which must break a promise; without a mutation each of these seeds must break none. Returns
 * the number of what failed.
 */
export async function checkMutations(): Promise<number> {
  let failed = 0;
  const say = (isRight: boolean, text: string) => {
    if (!isRight) failed++;
    console.log(`${isRight ? 'ok' : 'FAILED'}: ${text}`);
  };
  const found = MUTATIONS.filter(({ seed }) => seed !== undefined);
  console.log(`${found.length} of ${MUTATIONS.length} mutations have a seed`);
  for (const seed of new Set(found.map((each) => each.seed))) {
    const broken = await simulate(undefined, ['--seed', String(seed)]);
    say(broken === undefined, `seed ${seed} without a mutation`);
  }
  for (const { name, seed, ...mutated } of found) {
    const broken = await simulate(mutated, ['--seed', String(seed)]);
    say(broken?.includes(`seed ${seed} FAILED`) ?? false, `seed ${seed}: ${name}`);
  }
  return failed;
}

/** Writes another seed of a mutation into this file. */
function keepSeed(name: string, seed: string): void {
  const file = new URL(import.meta.url);
  const source = readFileSync(file, 'utf8');
  const from = source.indexOf(`'${name}'`);
  const to = source.slice(from).search(/\),\n( {2}mutation|\];)/) + from;
  const kept = source.slice(from, to).replace(/,\s*\d*,?\s*$/, '');
  writeFileSync(file, `${source.slice(0, from)}${kept},\n    ${seed},\n  ${source.slice(to)}`);
}

/** Looks for seeds of mutations that theirs finds no longer, and writes them down: `node test/sim/mutations.ts [part of a name]`. */
if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [only = '', forS = '60', first = '1'] = process.argv.slice(2);
  for (const { name, seed, ...mutated } of MUTATIONS) {
    if (!name.includes(only)) continue;
    const stored = seed === undefined ? undefined : await simulate(mutated, ['--seed', String(seed)]);
    const isKept = stored?.includes(`seed ${seed} FAILED`);
    const found = isKept ? stored : await simulate(mutated, ['--seed', first, '--for', `${forS}s`]);
    const [, at] = /^seed (\d+) FAILED/m.exec(found ?? '') ?? [];
    if (!isKept && at !== undefined) keepSeed(name, at);
    const line = found?.split('\n').find((each) => /^ {2}\d|Error/.test(each));
    console.log(`seed ${at} (before ${seed}): ${name}: ${line?.slice(0, 160)}`);
  }
}
