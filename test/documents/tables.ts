import { Help } from 'commander';
import type { Registry } from 'prom-client';
import { parse } from 'yaml';
import * as documents from '../../bench/documents.ts';
import { table } from '../../bench/markdown.ts';
import type { Results } from '../../bench/results.ts';
import type { Sizes } from '../../bench/sizing.ts';
import * as ofRun from '../../bench/tables.ts';
import { addCommands } from '../../src/cli/commands.ts';
import { CliCommand } from '../../src/cli/common/help.ts';
import { readConfig, VARIABLES } from '../../src/config/config.ts';
import { publicErrors } from '../../src/errors.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { watchInstance, watchProcess, watchWorker } from '../../src/observability/scraped-metrics.ts';
import { read } from './files.ts';

const results: Results = JSON.parse(read('bench/results/latest.json'));
const sizing: Sizes = JSON.parse(read('bench/results/sizing.json'));

/** Tables generated from code and measurements, by the names of their marks in the documents. */
export const TABLES: Record<string, () => string | Promise<string>> = {
  variables,
  metrics,
  alerts,
  errorCodes,
  commands,
  options,
  runs: () => documents.runs(results, sizing),
  performance: () => documents.performance(results),
  comparison: () => documents.comparison(results),
  sizes: () => documents.sizes(sizing),
  growth: () => documents.growth(results),
  throughput: () => ofRun.throughput(results),
  ratios: () => ofRun.ratios(results),
  workers: () => ofRun.workers(results),
  autocannon: () => ofRun.autocannon(results),
  latency: () => ofRun.latency(results),
  compression: () => ofRun.compression(results),
};

/** The command line, with all its commands. */
export const program = new CliCommand('hotel-api');
await addCommands(program);

const code = (text: string) => `\`${text}\``;
const plain = (text: string) => text.replace(/\s+/g, ' ').trim();

function variables(): string {
  const config = readConfig({ DATABASE_URL: 'postgres://localhost/hotels' });
  /** Defaults and bounds that depend on the machine, or are clearer in larger units. */
  const inWords: Record<string, [fallback?: string, bounds?: string]> = {
    DATABASE_URL: ['required'],
    WORKERS: ['available CPUs'],
    L1_MAX_BYTES: [undefined, '0, or 1 MiB to 3 GiB'],
  };
  const rows = Object.entries(VARIABLES).map(([name, variable]) => {
    const value = config[name as keyof typeof config];
    const fallback =
      typeof value === 'number' && !name.includes('PORT') ? value.toLocaleString('en-US') : String(value);
    const bounds =
      'minimum' in variable
        ? `${variable.minimum.toLocaleString('en-US')} to ${variable.maximum.toLocaleString('en-US')}`
        : 'values' in variable
          ? variable.values.join(', ')
          : '';
    return [
      code(name),
      inWords[name]?.[0] ?? (fallback || 'none'),
      inWords[name]?.[1] ?? bounds,
      variable.description,
    ];
  });
  return table(['Variable', 'Default', 'Bounds', 'Meaning'], rows);
}

/** Labels whose values are listed: closed sets, independent of the deployment. */
const LISTED = ['reason', 'tier', 'result', 'kind', 'dependency', 'outcome'];

async function metrics(): Promise<string> {
  const { registry } = new Metrics();
  watchProcess(registry, '1');
  watchInstance(registry, 1, () => 1);
  watchWorker(registry, '1', {
    pipeline: { inProgress: 0 },
    server: { connections: 0 },
    maxConnections: 1,
    postgres: { waiting: 0, running: 0 },
    limits: { poolSize: 1, queueLimit: 1 },
    collections: { queries: 0 },
    arena: { stats: () => ({ entries: 0, absences: 0, bytes: 0, maxBytes: 0, evictions: 0, puts: 0 }) },
    waiters: { waiting: 0 },
    freshness: { isCurrent: () => true },
    origin: { lagsMs: [0] },
  });
  const found = await (registry as Registry).getMetricsAsJSON();
  const rows = found
    .map(({ name, type, help, values }) => {
      const labels = new Map<string, Set<string>>();
      for (const sample of values ?? [])
        for (const [label, value] of Object.entries(sample.labels))
          if (label !== 'le') labels.set(label, (labels.get(label) ?? new Set()).add(String(value)));
      const shown = [...labels].map(([label, of]) =>
        LISTED.includes(label) ? `${code(label)}: ${[...of].join(', ')}` : code(label),
      );
      return [code(name), String(type), shown.join('; '), help];
    })
    .sort(([a], [b]) => (a! < b! ? -1 : 1));
  return table(['Metric', 'Type', 'Labels', 'Meaning'], rows);
}

/** Returns a section for each alert, so that its runbook_url has an anchor. */
function alerts(): string {
  interface Rule {
    alert?: string;
    expr: string;
    for?: string;
    labels: { severity: string };
    annotations: { summary: string; description: string };
  }
  const groups: { rules: Rule[] }[] = parse(read('k8s/monitoring/rules.yaml')).groups;
  return groups
    .flatMap(({ rules }) => rules)
    .filter(({ alert }) => alert !== undefined)
    .map(({ alert, expr, labels, annotations, ...rule }) => {
      const severity = labels.severity.replace(/^./, (letter) => letter.toUpperCase());
      const pending = rule.for ? `after ${rule.for}` : 'at once';
      // an alert with several states them in its description
      const [limit, ...further] = thresholdsOf(expr);
      const condition = limit !== undefined && further.length === 0 ? `, if ${code(limit)}` : '';
      const summary = plain(annotations.summary)
        .replace(/\{\{ with .*\{\{ end \}\}/, '')
        .replace(/\{\{[^}]*?\$labels\.(\w+).*?\}\}/g, (_, label: string) => label.toUpperCase())
        .replace(/\{\{.*?\}\}/g, 'N');
      return `### ${code(alert!)}\n\n${severity}, ${pending}${condition}: *${summary}.* ${plain(annotations.description)}`;
    })
    .join('\n\n');
}

/** Returns the distinct comparisons of an expression with a number other than 0, such as `> 0.0144`; none of an alternative. */
function thresholdsOf(expr: string): string[] {
  if (/^\s*or /m.test(expr)) return [];
  const found = [...expr.matchAll(/(?<=\s)([<>]=?) (\d[\d.]*)(?: \* ([\d.]+))?/g)].flatMap(
    ([, sign, limit, factor = '1']) => {
      const value = Number((Number(limit) * Number(factor)).toPrecision(6));
      return value === 0 ? [] : [`${sign} ${value}`];
    },
  );
  return [...new Set(found)];
}

function errorCodes(): string {
  const rows = Object.values(publicErrors).map((error) => [
    code(error.code),
    error.status,
    error.message.includes('`') ? `\`\` ${error.message} \`\`` : code(error.message),
  ]);
  return table(['`x-error-code`', 'Status', '`error`'], rows);
}

/** Every command without subcommands, with its path, such as `keys create`. */
const leaves = program.commands.flatMap((command) =>
  command.commands.length > 0
    ? command.commands.map((each) => ({ path: `${command.name()} ${each.name()}`, command: each }))
    : [{ path: command.name(), command }],
);

function commands(): string {
  const rows = leaves.map(({ path, command }) => {
    const operands = command.usage().replace(/^\[options\] ?/, '');
    return [code(`${path} ${operands}`.trim()), command.description()];
  });
  return table(['Command', 'Effect'], rows);
}

/** Returns the arguments and options of each command; the first of them names the command. */
function options(): string {
  const help = new Help();
  const rows = leaves.flatMap(({ path, command }) => {
    const found = [
      ...command.registeredArguments.map((argument) => [argument.name(), help.argumentDescription(argument)]),
      ...command.options.map((option) => [
        option.flags,
        option.mandatory ? `${option.description} (required)` : help.optionDescription(option),
      ]),
    ];
    return found.map(([name, meaning], i) => [i === 0 ? code(path) : '', code(name!), meaning!]);
  });
  return table(['Command', 'Argument or option', 'Meaning'], rows);
}
