import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import type { Replacement } from './hooks.ts';

const MAIN = new URL('main.ts', import.meta.url).pathname;
const FILE = new URL('mutations.yaml', import.meta.url);

type Mutation = { from: string; to?: string; seed?: number; seconds?: number };
type Mutations = Record<string, Record<string, Mutation>>;
const document = parseDocument(readFileSync(FILE, 'utf8'));
const MUTATIONS = Object.entries(document.toJS() as Mutations).flatMap(([file, mutations]) =>
  Object.entries(mutations).map(([name, { from, to = '', seed, seconds = 60 }]) => ({
    ...{ name, seed, args: ['--seed', `${seed}`, '--seconds', `${seconds}`], mutated: { file, from, to } },
  })),
);

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
  for (const [seed, { args }] of new Map(found.map((each) => [each.seed, each]))) {
    const broken = await simulate(undefined, args);
    say(broken === undefined, `seed ${seed} without a mutation`);
  }
  for (const { name, seed, args, mutated } of found) {
    const broken = await simulate(mutated, args);
    say(broken?.includes(`seed ${seed} FAILED`) ?? false, `seed ${seed}: ${name}`);
  }
  return failed;
}

/** Looks for seeds of mutations that theirs finds no longer, and writes them down: `node test/sim/mutations.ts [part of a name]`. */
if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [only = '', forS = '60', first = '1'] = process.argv.slice(2);
  for (const { name, seed, args, mutated } of MUTATIONS) {
    if (!name.includes(only)) continue;
    const stored = seed === undefined ? undefined : await simulate(mutated, args);
    const isKept = stored?.includes(`seed ${seed} FAILED`);
    const found = isKept ? stored : await simulate(mutated, ['--seed', first, '--for', `${forS}s`]);
    const [, at] = /^seed (\d+) FAILED/m.exec(found ?? '') ?? [];
    if (!isKept && at !== undefined) {
      document.setIn([mutated.file, name, 'seed'], Number(at));
      writeFileSync(FILE, document.toString({ lineWidth: 0, singleQuote: true }));
    }
    const line = found?.split('\n').find((each) => /^ {2}\d|Error/.test(each));
    console.log(`seed ${at} (before ${seed}): ${name}: ${line?.slice(0, 160)}`);
  }
}
