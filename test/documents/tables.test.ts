import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { codeOf, documents, ROOT, read, unique } from './files.ts';
import { TABLES } from './tables.ts';

const BEGIN = '<!-- table: ';
const MARKED = /<!-- table: (\w+) -->\n[\s\S]*?<!-- end -->/g;
const marked = documents.filter((path) => read(path).includes(BEGIN));

describe('the generated parts', () => {
  it('are in one document each', () => {
    const names = marked.flatMap((path) => [...read(path).matchAll(MARKED)].map(([, name]) => name!));
    expect(names.sort()).toEqual(Object.keys(TABLES).sort());
  });

  it.each(marked)('of %s are current; npm run build:docs updates them', async (path) => {
    let text = read(path);
    for (const [block, name] of text.matchAll(MARKED)) {
      const table = await TABLES[name!]!();
      text = text.replace(block, () => `${BEGIN}${name} -->\n\n${table}\n\n<!-- end -->`);
    }
    await expect(text).toMatchFileSnapshot(ROOT + path);
  });

  it('show no more memory than the rule of sizing.md allows a primary process and a worker', () => {
    const { primaryMiB, workerMiB } = JSON.parse(read('bench/results/sizing.json'));
    const text = read('docs/operations/sizing.md');
    expect(primaryMiB).toBeLessThan(Number(/(\d+) MiB \+ `WORKERS`/.exec(text)![1]));
    expect(workerMiB).toBeLessThan(Number(/(\d+) MiB are the most that was measured/.exec(text)![1]));
  });

  it('name every metric of the code', async () => {
    const names = readdirSync(`${ROOT}src/observability`)
      .filter((file) => !file.endsWith('.test.ts'))
      .flatMap((file) => read(`src/observability/${file}`).match(/\bhotel_api_\w+/g) ?? []);
    expect(names.length).toBeGreaterThan(30);
    const shown = codeOf(await TABLES.metrics!()).filter((name) => name.startsWith('hotel_api_'));
    expect(unique(shown)).toEqual(unique(names));
  });
});
