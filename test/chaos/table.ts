import { globSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Reporter, TestCase, TestModule, TestResult } from 'vitest/node';
import { LONG_TESTS } from '../support/projects.ts';
import type { Row } from '../support/run-length.ts';

const RESULTS = fileURLToPath(new URL('./results', import.meta.url));

type ResultRow = Row & { held: string };

/** Reporter that prints the table of results, and writes it to results/long.md if all tests ran. */
export default class SurvivalTable implements Reporter {
  async onTestRunEnd(modules: readonly TestModule[]): Promise<void> {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const rows: ResultRow[] = [];
    for (const test of tests) {
      const { result } = test.meta();
      if (result) rows.push({ ...result, held: verdictOf(test.result()) });
    }
    if (rows.length === 0) return;
    const text = markdownOf(rows);
    process.stdout.write(`\n${text}`);
    if (modules.length < testFiles() || !tests.every(wasTried)) return;
    await mkdir(RESULTS, { recursive: true });
    const machine = `${cpus().length} × ${cpus()[0]?.model.trim()}, Node ${process.version}`;
    const date = new Date().toISOString().slice(0, 10);
    await writeFile(`${RESULTS}/long.md`, `${machine}, ${date}\n\n${text}`);
  }
}

/** Number of test files of the long run. */
const testFiles = (): number => globSync(LONG_TESTS).length;

/** Returns false for a test excluded by a filter; a test without a result states the reason. */
function wasTried(test: TestCase): boolean {
  const result = test.result();
  return result.state !== 'skipped' || result.note !== undefined;
}

function verdictOf(result: TestResult): string {
  if (result.state === 'skipped') return `not checked: ${result.note}`;
  return result.state === 'passed' ? 'yes' : 'no';
}

function markdownOf(rows: ResultRow[]): string {
  const tables = [...new Set(rows.map(({ table }) => table))];
  return tables.map((table) => tableOf(rows.filter((row) => row.table === table))).join('\n');
}

function tableOf(rows: ResultRow[]): string {
  const columns = [...new Set(rows.flatMap(({ measured }) => Object.keys(measured)))];
  const line = (cells: (string | number)[]) => `| ${cells.join(' | ')} |\n`;
  return [
    line([rows[0]!.table, 'held', ...columns]),
    line(['---', '---', ...columns.map(() => '---:')]),
    ...rows.map(({ fault, held, measured }) =>
      line([fault, held === 'no' ? '**no**' : held, ...columns.map((column) => measured[column] ?? '')]),
    ),
  ].join('');
}
