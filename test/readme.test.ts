import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { addHotelCommands } from '../src/cli/tree/hotels.ts';
import { addKeyCommands } from '../src/cli/tree/keys.ts';
import { addOperationCommands } from '../src/cli/tree/operation.ts';
import { Environment, readConfig } from '../src/config.ts';
import { publicErrors, REFUSALS } from '../src/errors.ts';
import { commandsOf } from './support/commands.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string) => readFileSync(ROOT + path, 'utf8');
const readme = read('README.md');
const blocks = [...readme.matchAll(/^```(\w*)\n([\s\S]*?)^```/gm)].map(([, language, text]) => ({
  language,
  text: text!,
}));
const commands = blocks.filter(({ language }) => language === 'sh').map(({ text }) => text);
const code = [...readme.replace(/^```[\s\S]*?^```/gm, '').matchAll(/(`+)([^`].*?)\1/g)].map(
  ([, , text]) => text!,
);
/** The part below a heading, up to the next of the same depth. */
const section = (heading: string) => readme.split(`\n${heading}\n`)[1]!.split(/\n#{2,3} /)[0]!;
/** The rows of all tables in a text, as trimmed cells; `\|` stands for a bar in a cell. */
const rowsOf = (text: string) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim()),
    );
const unique = (words: Iterable<string>) => [...new Set(words)].sort();

describe('what the README names is there', () => {
  it('links', () => {
    const anchors = [...readme.matchAll(/^#+ (.*)$/gm)].map(
      ([, title]) =>
        `#${title!
          .toLowerCase()
          .replace(/[^\w\- ]/g, '')
          .replaceAll(' ', '-')}`,
    );
    const targets = [...readme.matchAll(/\]\(([^)]+)\)/g)].map(([, target]) => target!);
    expect(targets.length).toBeGreaterThan(20);
    expect(
      targets.filter(
        (target) => !(target.startsWith('#') ? anchors.includes(target) : existsSync(ROOT + target)),
      ),
    ).toEqual([]);
  });

  it('paths', () => {
    const named = [...code, ...commands].flatMap(
      (text) => text.match(/(?<![\w/.-])(src|test|bench|sql|k8s|\.ci)\/[\w./-]*[\w/]/g) ?? [],
    );
    expect(named.length).toBeGreaterThan(20);
    expect(unique(named.filter((path) => !existsSync(ROOT + path)))).toEqual([]);
  });

  it('the code map: every folder, and every file above them', () => {
    const map = blocks.find(({ text }) => text.startsWith('src/\n'))!.text;
    const named = [...map.matchAll(/^ {2}([a-z]+(?:\/|\.ts))| {2}([a-z-]+\.ts) /gm)].map(
      ([, a, b]) => (a ?? b)!,
    );
    const there = readdirSync(`${ROOT}src`, { withFileTypes: true })
      .filter(({ name }) => !name.endsWith('.test.ts'))
      .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name));
    expect(unique(named)).toEqual(there.sort());
    const tests = readdirSync(`${ROOT}test`, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(unique(map.match(/(?<=test\/)[a-z]+/g)!)).toEqual(tests.map(({ name }) => name).sort());
    for (const top of ['sql', 'bench', 'k8s', 'Dockerfile']) expect(map).toContain(top);
  });

  it('scripts of npm, all of them', () => {
    const { scripts } = JSON.parse(read('package.json'));
    const named = [...code, ...commands].flatMap((text) =>
      [...text.matchAll(/npm run (?:-s )?([\w:-]+)/g)].map(([, name]) => name!),
    );
    // these two need no `run`
    expect(unique([...named, 'start', 'test'])).toEqual(Object.keys(scripts).sort());
  });

  it('commands of the command line, all of them, with the options that are used', () => {
    const program = new Command('hotel-api');
    addKeyCommands(program);
    addHotelCommands(program);
    addOperationCommands(program);
    const contexts = commandsOf(program);
    const declared = unique([
      ...contexts.filter(({ path }) => path.length === 1).map(({ path }) => path[0]!),
      ...[...read('src/main.ts').matchAll(/\.command\('(\w+)'\)/g)].map(([, name]) => name!),
    ]);
    const rows = rowsOf(section('### Run it'));
    expect(unique(rows.slice(1).map(([cell]) => /^`([\w-]+)/.exec(cell!)![1]!))).toEqual(declared);
    const inKeys = rows.find(([cell]) => cell!.startsWith('`keys'))![0]!.match(/\w+(?=`)/g);
    expect(unique(inKeys!)).toEqual(
      unique(contexts.filter(({ path }) => path.length === 2).map(({ path }) => path[1]!)),
    );

    const lines = commands.flatMap((text) => [
      ...text.matchAll(/hotel-api (?:-- )?([a-z][a-z-]*(?: [a-z]+)?)([^#\n]*)/g),
    ]);
    expect(lines.length).toBeGreaterThan(4);
    for (const [line, words, rest] of lines) {
      const path = words!.split(' ');
      const context = contexts.findLast(({ path: known }) => known.every((word, i) => word === path[i]))!;
      expect(declared, line).toContain(path[0]);
      expect(context.options, line).toEqual(expect.arrayContaining(rest!.match(/(?<=\s)--[a-z-]+/g) ?? []));
    }
  });

  it('variables, all of them, with defaults and bounds', () => {
    const group = (value: number) => value.toLocaleString('en-US');
    const config = readConfig({ DATABASE_URL: 'postgres://localhost/hotels' });
    const wanted = Object.entries(Environment.properties).map(([name, schema]) => {
      const {
        minimum,
        maximum,
        enum: values,
      } = schema as { minimum?: number; maximum?: number; enum?: string[] };
      const value = config[name as keyof typeof config];
      const fallback = typeof value === 'number' && !name.includes('PORT') ? group(value) : String(value);
      const bounds =
        values?.join(', ') ?? (maximum === undefined ? '' : `${group(minimum!)} to ${group(maximum)}`);
      return [name, fallback || 'none', bounds];
    });
    /** What the table says in other words than the schema, for it depends on the machine or is in larger units. */
    const inWords: Record<string, [fallback?: string, bounds?: string]> = {
      DATABASE_URL: ['required'],
      WORKERS: ['the CPUs the container may use'],
      L1_MAX_BYTES: [undefined, '0, or 1 MiB to 3 GiB'],
    };
    for (const row of wanted) {
      const [fallback, bounds] = inWords[row[0]!] ?? [];
      row[1] = fallback ?? row[1]!;
      row[2] = bounds ?? row[2]!;
    }
    expect(
      rowsOf(section('### Configuration'))
        .slice(1)
        .map(([name, fallback, bounds]) => [name!.replaceAll('`', ''), fallback!, bounds!])
        .sort(),
    ).toEqual(wanted.sort());
  });

  it('metrics, all of them', () => {
    const names = readdirSync(`${ROOT}src/observe`)
      .filter((file) => !file.endsWith('.test.ts'))
      .flatMap((file) => read(`src/observe/${file}`).match(/(?<=')hotel_api_\w+(?=')/g) ?? []);
    expect(names.length).toBeGreaterThan(30);
    const shown = code.flatMap((text) => text.match(/^hotel_api_\w+$/) ?? []);
    // a role and a table
    const others = ['hotel_api_serve', 'hotel_api_told'];
    expect(unique(shown.filter((name) => !others.includes(name)))).toEqual(unique(names));
  });

  it('reasons of refusals, all of them', () => {
    const row = rowsOf(section('### Metrics, alerts, logs')).find(([name]) =>
      name!.includes('requests_refused'),
    );
    expect(row![2]!.match(/\w+/g)).toEqual(REFUSALS);
  });

  it('alerts, all of them, with what to do', () => {
    interface Rule {
      alert?: string;
      labels?: { severity: string };
      annotations?: { description: string };
    }
    const plain = (text: string) => text.replaceAll('`', '').replace(/\s+/g, ' ').trim();
    const rules: Rule[] = parse(read('k8s/monitoring/rules.yaml')).groups.flatMap(
      ({ rules }: { rules: Rule[] }) => rules,
    );
    const wanted = rules
      .filter(({ alert }) => alert !== undefined)
      .map(({ alert, labels, annotations }) => [alert!, labels!.severity, plain(annotations!.description)]);
    const shown = rowsOf(section('### Metrics, alerts, logs'))
      .filter(([name]) => name!.startsWith('`HotelApi'))
      .map(([name, severity, , todo]) => [plain(name!), severity!, plain(todo!)]);
    expect(shown).toEqual(wanted);
  });

  it('errors, all of them, with their statuses', () => {
    const shown = rowsOf(section('## For integrators'))
      .filter(([status]) => /^\d{3}$/.test(status!))
      .flatMap(([status, sentences]) => [
        ...[...sentences!.matchAll(/(`+)([A-Za-z].*?)\1(?!`)/g)].map(([, , text]) => `${status} ${text}`),
      ]);
    const wanted = Object.values(publicErrors).map(({ status, sentence }) => `${status} ${sentence}`);
    // what differs by the field alone stands once, with the other field's name behind it
    const withRegistry = (text: string) => text.replaceAll('channel_ids', 'registry_ids');
    expect(wanted.filter((one) => !shown.some((text) => text === one || withRegistry(text) === one))).toEqual(
      [],
    );
    expect(shown.filter((text) => !/ registry_ids$/.test(text) && !wanted.includes(text))).toEqual([]);
  });
});
